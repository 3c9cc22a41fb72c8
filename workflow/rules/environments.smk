# Without conda each backend's environment is a venv that uv builds from envs/<name>.txt. The rule
# always succeeds: its marker says how the build went, and cells of a failed one record env-failed.


rule environment:
    input:
        ROOT / "envs/{environment}.txt",
    output:
        ".envs/{environment}.json",
    params:
        # Changes when the last build failed, so that the next run tries again.
        failed=lambda wildcards: failed_token(Path(f".envs/{wildcards.environment}.json")),
        command=[sys.executable, "-m", "gemmgrid.plan.environments", "build"],
        envs=str(ROOT / "envs"),
    wildcard_constraints:
        environment="[a-z0-9][a-z0-9._-]*",
    priority: 1_000_000_000
    threads: workflow.cores or 1  # a build must not disturb a measurement
    shell:
        "PYTHONPATH={PACKAGE:q} {params.command:q} {wildcards.environment:q} "
        "--envs {params.envs:q} --into .envs --marker {output:q} --token {params.failed:q}"


localrules:
    environment,
