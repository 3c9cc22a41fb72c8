"""The documents say what is there: words of the tables, files, commands, messages, an example."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gemmgrid.__main__ import COMMANDS
from gemmgrid.records.run import FLAGS, STATUSES
from gemmgrid.report.read.rows import MISSING
from tests.measure.interpreters import ROOT
from tests.plan.conftest import Project

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
SOURCES = sorted([*ROOT.glob("workflow/**/*.py"), *ROOT.glob("workflow/**/*.smk")])


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


MAKEFILE = read(ROOT / "Makefile")
TARGETS = frozenset(" ".join(re.findall(r"^([a-z][a-z -]*):(?!=)", MAKEFILE, re.M)).split())
BASENAMES = frozenset(
    path.name
    for place in ("workflow", "tests", "benchmarks")
    for path in ROOT.glob(f"{place}/**/*.py")
)
RULES = frozenset(re.findall(r"^rule (\w+):", "\n".join(map(read, SOURCES)), re.M))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def first_column(page: Path, heading: str) -> list[str]:
    """What stands as code in the first column of the table under a heading."""
    section = re.split(r"^## ", read(page), flags=re.M)
    body = next(part for part in section if part.startswith(f"{heading}\n"))
    return re.findall(r"^\| `([^`]+)` \|", body, re.M)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", read(page), re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {text.replace(" ", "-") for text in kept}


def code_of(page: Path) -> str:
    """What a page shows as code: blocks, indented or fenced, and words between backticks."""
    text = read(page)
    parts = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    parts += re.findall(r"^    .+", text, re.M) + re.findall(r"`([^`\n]+)`", text)
    return "\n".join(parts)


def flags_that_code_sets() -> Iterator[str]:
    """Literals that are appended to a list of flags or doubts, or assigned as one."""
    for file in ROOT.glob("workflow/gemmgrid/measure/**/*.py"):
        for node in ast.walk(ast.parse(read(file))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner, values = node.func.value, node.args
                if node.func.attr != "append":
                    continue
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
                owner, values = node.targets[0], node.value.elts
            else:
                continue
            if re.search(r"\b(flags|doubts)\b", ast.unparse(owner)):
                yield from (
                    one.value
                    for one in values
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )


def test_every_flag_and_status_is_explained_and_no_other() -> None:
    assert first_column(DOCS / "flags.md", "Flags") == list(FLAGS)
    assert first_column(DOCS / "flags.md", "Statuses") == [*STATUSES, MISSING]


def test_every_flag_that_is_set_is_in_the_table_and_every_one_of_the_table_is_set() -> None:
    found = set(flags_that_code_sets())
    assert found <= set(FLAGS)
    # Those that are not appended as a literal stand as one elsewhere, as foreign_runs.FLAG does.
    table = ROOT / "workflow/gemmgrid/records/run.py"
    elsewhere = {
        node.value
        for file in ROOT.glob("workflow/gemmgrid/**/*.py")
        if file != table
        for node in ast.walk(ast.parse(read(file)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(FLAGS) <= elsewhere
    assert len(found) >= len(FLAGS) // 2


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_of_the_project_that_are_named_are_there(page: Path) -> None:
    """Whole paths from the root. What a user makes is left out: it has a place-holder or is new."""
    places = r"(?:workflow|tests|docs|envs|config|profiles|benchmarks|requirements)"
    named = re.findall(rf"(?<![\w/.<>])({places}/[\w./-]+\.\w+)(?![\w<*])", code_of(page))
    example = {f"envs/numpy-nvpl.{kind}" for kind in ("yaml", "txt")}
    example |= {"envs/numpy-mkl.linux-64.pin.txt", "config/studies/transposes.yaml"}
    example |= {"config/references.yaml", "config/studies/NAME.yaml"}
    for file in set(named) - example:
        assert (ROOT / file).exists(), file
    for bare in set(re.findall(r"(?<![\w/.])(\w+\.py)\b", code_of(page))):
        assert bare in BASENAMES, bare


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_are_named_exist(page: Path) -> None:
    code = code_of(page)
    for target in re.findall(r"(?:^|[\s(])make ([a-z][\w-]*)", code):
        assert target in TARGETS, f"make {target}"
    for command in re.findall(r"(?:python -m |\.venv/bin/)gemmgrid ([a-z]\w*)", code):
        assert command in COMMANDS, f"gemmgrid {command}"
    for rule in re.findall(r"snakemake --cores \w+ (?:--use-conda )?([a-z]\w*)", code):
        assert rule in RULES, f"snakemake {rule}"


def test_help_of_make_lists_every_target_and_no_other() -> None:
    listed = set(re.findall(r"echo 'make ([a-z][\w-]*)|; make (test-all)", MAKEFILE))
    # `setup` is what all others start with.
    assert {first or second for first, second in listed} == TARGETS - {"help", "setup"}


def test_messages_of_troubleshooting_are_messages_of_the_code() -> None:
    # Literals that follow each other are one, and what is filled in is "…".
    said = "\n".join([*map(read, SOURCES), MAKEFILE])
    said = re.sub(r'"\s*\n\s*f?"', "", said)
    said = re.sub(r"\{[^{}\n]*\}", "…", said).replace("\\`", "`")
    headings = re.findall(r"^### (.+)$", read(DOCS / "troubleshooting.md"), re.M)
    assert len(headings) > 20
    for heading in headings:
        parts = [part.strip() for part in heading.strip("`").split("…")]
        for part in filter(None, parts):
            # conda's own words, which the workflow only looks for.
            spelt = part.replace(" ", r"\s") if part.startswith("Could not create") else part
            assert spelt in said or part in said, heading


def test_the_example_of_a_study_plans_as_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.search(r"^```yaml\n(study: .*?)^```", read(DOCS / "studies.md"), re.M | re.S)
    config = yaml.safe_load(read(ROOT / "config/config.yaml")) | yaml.safe_load(block[1])
    plan = Project(tmp_path, monkeypatch).plan(config)
    assert [cell.backend for cell in plan.cells] == ["numpy-openblas"] * 6
    assert {one.reason for one in plan.skipped if one.backend == "numpy-openblas"} == {
        "the small ones are enough for float64"
    }


def test_the_map_of_the_house_shows_every_room_and_no_other() -> None:
    text = (
        read(ROOT / "CONTRIBUTING.md")
        .partition("workflow/gemmgrid/\n")[2]
        .partition("    tests/")[0]
    )
    heads = [line[:33] for line in text.splitlines() if line[:9].strip()]
    shown = {room for head in heads for room in re.findall(r"(\w+)/", head)}
    package = ROOT / "workflow/gemmgrid"
    wings = [path for path in package.iterdir() if (path / "__init__.py").exists()]
    rooms = [path for wing in wings for path in wing.iterdir() if (path / "__init__.py").exists()]
    assert shown == {path.name for path in [*wings, *rooms]}
