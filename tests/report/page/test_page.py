"""The page as a document: complete, self-contained, and deaf to what strangers write."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.report.page import page
from gemmgrid.report.page.sections import SECTIONS, table
from gemmgrid.report.page.sections.machines import _differs
from gemmgrid.report.page.view import View
from gemmgrid.report.read.collect import Collection, collect
from gemmgrid.report.read.hardware import Fact
from gemmgrid.report.read.rows import Row
from gemmgrid.report.terminal.summary import summary
from tests.report import synthetic
from tests.report.synthetic import HOSTILE

CELL = synthetic.gemm(64)


class Outline(HTMLParser):
    """Tags, attributes and texts of a page, and whether its elements are closed in order."""

    VOID = frozenset({"meta", "link", "br", "input", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop() == tag, f"</{tag}> out of order"

    def handle_data(self, data: str) -> None:
        self.texts.append((self.stack[-1] if self.stack else "", data))

    def text(self, *within: str) -> str:
        return " ".join(text for tag, text in self.texts if not within or tag in within)


def render(collection: Collection) -> str:
    return page.render(View(collection, "2026-11-30T14:00:00.000000Z"))


@pytest.fixture(scope="module")
def html(collection: Collection) -> str:
    return render(collection)


@pytest.fixture(scope="module")
def outline(html: str) -> Outline:
    return Outline(html)


def section(html: str, name: str) -> str:
    start = html.index(f'<section id="{name}"')
    return re.sub(r"\s+", " ", html[start : html.index("</section>", start)])


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_every_section_has_a_heading_and_a_link(outline: Outline) -> None:
    links = {attrs.get("href") for tag, attrs in outline.tags if tag == "a"}
    ids = {attrs.get("id") for _, attrs in outline.tags}
    for name in ("overview", *SECTIONS):
        assert f"#{name}" in links
        assert {name, f"{name}-title"} <= ids


def test_ids_are_unique_and_links_inside_lead_somewhere(outline: Outline) -> None:
    ids = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs in outline.tags:
        if tag == "a":
            assert str(attrs["href"]).removeprefix("#") in ids


def test_sentences_have_a_space_between_them(outline: Outline) -> None:
    told = [text for tag, text in outline.texts if tag in ("p", "dd", "li", "td", "small")]
    assert not [text for text in told if re.search(r"[a-z][.!?][A-Z][a-z]+ ", text)]


def test_nothing_is_loaded_from_anywhere(outline: Outline, html: str) -> None:
    for tag, attrs in outline.tags:
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value)
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_the_pages_own_script_only(html: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    assert "default-src 'none'" in policy[1]
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy[1]


def test_language_charset_viewport_and_title(outline: Outline, html: str) -> None:
    assert html.startswith('<!doctype html>\n<html lang="en">')
    assert ("meta", {"charset": "utf-8"}) in outline.tags
    assert "<title>gemmgrid: synthetic</title>" in html
    assert any(attrs.get("name") == "viewport" for _, attrs in outline.tags)


def test_headings_do_not_skip_levels(outline: Outline) -> None:
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_header_counts(html: str, collection: Collection) -> None:
    overview = section(html, "overview")
    assert f"synthetic, {len(collection.planned)} cells planned on machine-a" in overview
    planned = [row for row in collection.cells if row.key in set(collection.planned)]
    ok = sum(row["status"] == "ok" for row in planned)
    assert f"<b>{ok}</b> measured" in overview
    assert "<b>7</b> failed" in overview
    assert "<b>3</b> missing" in overview
    assert "<b>4</b> excluded or unsupported" in overview
    assert "gemmgrid 0.1.0 (0123456789ab)" in overview


def test_machines_stand_side_by_side_with_differences_marked(html: str) -> None:
    machines = section(html, "machines")
    assert re.search(r'class="differs"><th scope="row">cores', machines)
    assert re.search(r"<tr><th scope=\"row\">kernel", machines)
    assert "not known: the kernel offers no cpufreq here" in machines


def test_what_a_machine_does_not_tell_is_no_difference() -> None:
    assert not _differs("cores", [Fact("2"), Fact(None, "lost"), Fact("2")])
    assert _differs("cores", [Fact("2"), Fact(None), Fact("4")])
    assert not _differs("described at", [Fact("today"), Fact("yesterday")])


def test_exercise_says_which_size_and_how_a_routine_is_known(html: str) -> None:
    exercise = section(html, "exercise")
    assert "No backend was measured at 4096³ yet" in exercise
    assert "np.matmul(A, B, out=C)" in exercise
    assert '<code>cblas_sgemm64_</code> <span class="mark" data-mark="traced">' in exercise
    assert "TFLOP/s" in exercise


def test_a_cell_whose_latest_run_failed_publishes_no_rate(tmp_path: Path) -> None:
    """Nothing of the good run before it is counted, drawn or ranked: it is in its column only."""
    for n in (128, 256, 4096):
        synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(n), gflops=777))
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(4096), status="crashed", reason="x"))
    html = render(collect(tmp_path))
    assert '<li class="card" data-kind="ok"><b>2</b> measured' in section(html, "overview")
    assert "TFLOP/s" in section(html, "exercise")
    assert "0.77" not in section(html, "exercise")
    assert "4096" not in section(html, "sweep")
    packed = data_of(html)
    rows = [dict(zip(packed["keys"], row, strict=True)) for row in packed["rows"]]
    (failed,) = [row for row in rows if row["status"] == "crashed"]
    assert failed["gflops"] is None
    assert failed["last_good_gflops"] == pytest.approx(777, rel=0.1)


def test_no_figure_of_an_earlier_good_run_is_in_tables_or_terminal(tmp_path: Path) -> None:
    """Every column that only a measured cell has is empty, but for the two of the last good run."""
    fields = {"gflops": 31234, "rounds": 5, "spread": 0.001}
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(128), **fields))
    (good,) = collect(tmp_path).cells
    failed = {"status": "crashed", "reason": "it died"}
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(128), **failed))
    collection = collect(tmp_path)
    (row,) = collection.cells
    numbers = {key for key, value in good.values.items() if isinstance(value, float)}
    assert {"gflops", "best_gflops", "time_s", "spread_low", "gflops_high"} <= numbers
    assert {key for key in numbers if row[key] is not None} == set()
    assert row["last_good_gflops"] == pytest.approx(31234, rel=0.02)
    assert not re.search(r"3[01],?\d\d\d", summary(collection, tmp_path / "index.html"))


def test_wrong_threads_are_not_ranked(tmp_path: Path) -> None:
    for threads, rate, flags in ((1, 100, []), (2, 5000, ["wrong-threads"])):
        cell = synthetic.gemm(4096, threads=threads)
        synthetic.write_run(tmp_path, synthetic.run(cell, gflops=rate, flags=flags))
    exercise = section(render(collect(tmp_path)), "exercise")
    assert "1 cell left out, because another number of threads worked" in exercise
    assert '<td class="number">1</td>' in exercise
    assert '<td class="number">2</td>' not in exercise


def test_accuracy_tells_where_the_bits_are_the_same(tmp_path: Path) -> None:
    for n, digests in ((64, "ab"), (128, "aa"), (256, "aa")):
        for threads, digest in enumerate(digests, start=1):
            run = synthetic.run(synthetic.gemm(n, threads=threads))
            for one in run["invocations"]:
                one["result"] = {"digest": digest, "componentwise": 2.25}
            synthetic.write_run(tmp_path, run)
    accuracy = section(render(collect(tmp_path)), "accuracy")
    assert "<td>over processes: yes; over thread counts: 2 of 3 cells</td>" in accuracy
    assert '<td class="number">2.2' in accuracy


def test_expected_is_never_shown_as_seen(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL))
    documented = {"status": "ok", "routines": [{"evidence": "documented", "symbol": "dsdot"}]}
    synthetic.write_run(tmp_path, synthetic.run(CELL, backend="jax-cpu", evidence=documented))
    exercise = section(render(collect(tmp_path)), "exercise")
    assert "<code>sgemm</code>" in exercise
    assert "expected by the lesson’s table, not seen" in exercise
    assert "documented: expected, not seen" in exercise
    assert 'data-mark="traced"' not in exercise


def test_versus_states_what_is_shared(html: str) -> None:
    versus = section(html, "versus")
    assert "machine-a against machine-b" in versus
    assert re.search(r"\d+ shared cells: machine-a is", versus)
    assert "Not compared: 0 measured only on machine-a" in versus


def test_unmeasured_gives_reason_and_command(html: str, study: Path) -> None:
    found = section(html, "unmeasured")
    assert "the process died of SIGSEGV while sampling" in found
    assert "Segmentation fault" in found
    path = f"{study.name}/machine-a/mlx-cpu/gemm.float32.2054x2054x2054.t1.jsonl"
    assert f"<code>snakemake --cores 1 -f {path}</code>" in found
    assert "exclude: n above 2048 for jax-cpu" in found


def test_the_table_has_every_cell(html: str, collection: Collection) -> None:
    data = data_of(html)
    assert len(data["rows"]) == len(collection.cells)
    assert all(len(row) == len(data["keys"]) for row in data["rows"])
    keys = [key for key, _, _ in (*data["columns"], *data["details"])]
    assert set(keys) - {"interval"} <= set(data["keys"])


def test_nothing_yet_says_so_everywhere(tmp_path: Path) -> None:
    html = render(collect(tmp_path))
    Outline(html)
    for name in SECTIONS:
        assert 'class="empty"' in section(html, name) or name == "reading"


def test_one_cell_is_enough(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL, invocations=1))
    html = render(collect(tmp_path))
    Outline(html)
    assert "one process only" in section(html, "exercise")
    assert "Only machine-a has measured cells" in section(html, "versus")
    assert "no curve to draw" in section(html, "sweep")
    assert "nothing to scale" in section(html, "threads")


def test_machines_that_share_nothing_say_so(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL, "one"))
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(128), "two"))
    versus = section(render(collect(tmp_path)), "versus")
    assert "one and two share no cell" in versus


def hostile_study(results: Path) -> None:
    """Every text that a record, a machine's file or a plan may hold says something hostile."""
    evidence = {
        "status": HOSTILE,
        "reason": HOSTILE,
        "routines": [{"evidence": "traced", "symbol": HOSTILE, "library": HOSTILE}],
        "kernels": [{"evidence": HOSTILE, "name": HOSTILE, "reason": HOSTILE}],
        "hidden": [{"what": HOSTILE, "explanation": HOSTILE}],
        "no_blas": {"function": HOSTILE},
        "inconsistent": HOSTILE,
    }
    texts = {
        "id": HOSTILE,
        "started_at": HOSTILE,
        "ended_at": HOSTILE,
        "machine": HOSTILE,
        "adapter": HOSTILE,
        "device": HOSTILE,
        "expression": HOSTILE,
        "flags": [HOSTILE, "a;b"],
        "library": {"name": HOSTILE, "version": HOSTILE, "file": HOSTILE},
        "tool": {"version": HOSTILE, "commit": HOSTILE},
        "host": {"id": HOSTILE},
        "gpu": {"name": HOSTILE, "driver": HOSTILE},
        "environment": {"deploy": HOSTILE},
        "evidence": evidence,
    }
    for index, status in enumerate(("ok", "ok", "crashed", "wrong")):
        document = synthetic.run(
            synthetic.gemm(64 * (index + 1)),
            status=status,
            reason=HOSTILE,
            failure={"stderr_tail": HOSTILE + "\n" + HOSTILE},
        )
        for invocation in document["invocations"]:
            invocation["effective_precision"] = HOSTILE
        document |= texts
        path = results / "machine-a" / "numpy-openblas" / f"{document['cell']['name']}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document) + "\n" + HOSTILE + "\n")
    machine = {
        "cpu": {"model": HOSTILE, "isa": [HOSTILE]},
        "os": HOSTILE,
        "gpus": [{"name": HOSTILE, "driver": HOSTILE}],
        "unknown": {"cpu.max_mhz": HOSTILE},
    }
    (results / "machine-a" / "machine.json").write_text(json.dumps(machine))
    (results / "machine-a" / "numpy-openblas" / "<img src=x onerror=alert(1)>.jsonl").write_text(
        "{}"
    )
    plan = synthetic.write_plan(results, [("jax-cpu", CELL, "excluded", HOSTILE)])
    lines = plan.read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | {"study": HOSTILE})
    plan.write_text("\n".join([*lines, HOSTILE]))


def test_what_strangers_write_stays_text(tmp_path: Path) -> None:
    hostile_study(tmp_path)
    html = render(collect(tmp_path))
    outline = Outline(html)
    assert sum(tag == "script" for tag, _ in outline.tags) == 2
    assert not any(tag in ("img", "iframe", "object") for tag, _ in outline.tags)
    for tag, attrs in outline.tags:
        assert not any(name.startswith("on") for name in attrs), (tag, attrs)
    assert "document.title='owned'" in outline.text("p", "td", "code", "dd", "span", "small")
    assert "<" not in re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1]  # type: ignore[index]
    assert any(HOSTILE in str(value) for row in data_of(html)["rows"] for value in row)


def test_data_knows_neither_infinity_nor_the_end_of_a_script(collection: Collection) -> None:
    value = {"b": "</script>&\u2028"}
    text = str(page.data(value))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value
    values = collection.cells[0].values | {"gflops_high": float("inf"), "gflops_low": 1 / 3}
    view = View(Collection(collection.results, cells=[Row(values)]), "2026-11-30T00:00:00Z")
    packed = table.build(view)["data"]
    (row,) = packed["rows"]
    named = dict(zip(packed["keys"], row, strict=True))
    assert (named["gflops_low"], named["gflops_high"]) == (0.333333, None)


def test_no_folder_of_the_makers_disk_stands_in_the_page(tmp_path: Path) -> None:
    library = "/home/maker/projects/.envs/torch-cpu/lib/libtorch_cpu.so"
    routine = {"evidence": "traced", "symbol": "sgemm", "library": library}
    run = synthetic.run(CELL, evidence={"status": "ok", "routines": [routine]})
    run["library"] = run["library"] | {"file": library}
    synthetic.write_run(tmp_path / "results", run)
    failed = synthetic.run(synthetic.gemm(128), status="crashed", reason="x")
    synthetic.write_run(tmp_path / "results", failed)
    html = render(collect(tmp_path / "results"))
    assert ".envs/torch-cpu/lib/libtorch_cpu.so" in html
    assert "/home/maker" not in html
    assert str(tmp_path) not in html
    assert "snakemake --cores 1 -f results/" in html


def test_writing_replaces_the_page_whole(tmp_path: Path, collection: Collection) -> None:
    out = tmp_path / "reports" / "index.html"
    page.write(collection, out)
    assert out.read_text(encoding="utf-8").endswith("</html>")
    assert [path.name for path in out.parent.iterdir()] == ["index.html"]
