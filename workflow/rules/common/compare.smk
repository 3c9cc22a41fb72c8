# The commands that compare, and the gate's.

# What failed has been said in plain words before Snakemake shows the command that said it.
SAID = re.compile(r"RuleException:.*gemmgrid\.report (compare|check|references)", re.S)
logger.addFilter(lambda record: not SAID.match(str(record.msg)))
REFERENCES = f"{STATE}/references.jsonl"


def options(*keys):
    """Arguments for the report's command from the keys of --config that were given."""
    given = [(key, ASKED.get(key)) for key in keys]
    return [f"--{key}={value}" for key, value in given if value is not None]


def compare_command(wildcards, threads):
    return reporting("compare", *options("first", "second"))


def resolve_command(wildcards, threads):
    """References name cells by selectors: the plan's side finds out which ones they mean."""
    places = ["--root", str(ROOT), "--results", "results", "--out", REFERENCES]
    return [*OURS, "gemmgrid.plan.change.references", *places]


def check_command(wildcards, threads):
    return reporting("check", "--references", REFERENCES)


def references_command(wildcards, threads):
    written = options("lower", "upper", "replace")
    return reporting("references", "--out", str(ROOT / "config/references.yaml"), *written)
