"""`snakemake --report`: the page and the tables, with their captions."""

from __future__ import annotations

import re
import zipfile

from gemmgrid.plan.jobs.files import PAGE, TABLES
from tests.workflow.project import ROOT, Project

OPENED = {PAGE, *(table for table in TABLES if table.endswith(".csv"))}


def test_the_report_of_snakemake_has_page_tables_captions_and_description(project: Project):
    before = project.counts()
    assert "Report created" in project.snakemake("--report", "r.html")
    text = (project.folder / "r.html").read_text(encoding="utf-8")
    assert [path for path in sorted(OPENED) if f'"{path}"' not in text] == []
    for caption in ("page", "cells", "runs", "comparisons", "problems"):
        first = (ROOT / f"workflow/report/{caption}.rst").read_text(encoding="utf-8").split(":")[0]
        words = re.split(r"[^\w ]", first)[0].strip()
        assert words in " ".join(text.replace("\\n", " ").split()), caption
    assert "This is the study" in text and "tiny" in text

    project.snakemake("--report", "r.zip")
    with zipfile.ZipFile(project.folder / "r.zip") as packed:
        packed_files = {name.rpartition("/")[2] for name in packed.namelist()}
    assert {path.rpartition("/")[2] for path in OPENED} <= packed_files
    assert not [name for name in packed_files if name.endswith(".parquet")]  # nothing to look at
    assert project.counts() == before  # nothing is measured for it


def test_before_anything_was_measured_it_says_what_is_missing(tmp_path):
    fresh = Project(tmp_path / "fresh")
    said = fresh.snakemake("--report", "r.html", code=1)
    assert f"{PAGE} marked for report but does not exist" in said or any(
        f"{table} marked for report but does not exist" in said for table in TABLES
    )
    assert "Traceback" not in said
