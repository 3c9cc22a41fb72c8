"""The page: one self-contained file that opens from disk, without network, in light and dark.

Every value is escaped by the template engine; the data of the big table is JSON in which no
character can end its element; and a content security policy lets nothing run but the page's own
script, known by its hash, and nothing load at all. So a record from someone else's machine can say
what it likes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gemmgrid import __version__
from gemmgrid.records.files import write_atomically
from gemmgrid.records.run import FLAGS, now
from gemmgrid.records.text import count, number
from gemmgrid.report.page.sections import SECTIONS
from gemmgrid.report.page.view import View, listed
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.rows import MISSING, Row

_HERE = Path(__file__).parent
_SCRIPTS = ("theme.js", "copy.js", "table.js")
_FOLDERS = re.compile(r"""(?<![\w./-])/(?:[^\s"'<>&\\]*?/)?(?=\.envs/)""")
"""What stands before a project's environments in a path."""


def write(collection: Collection, out: Path) -> None:
    """Write the page for this collection, whole or not at all."""
    write_atomically(out, render(View(collection, now())).encode())


def render(view: View) -> str:
    """The whole page as HTML."""
    engine = _engine()
    sections = []
    for name, section in SECTIONS.items():
        context = section.build(view)
        body = engine.get_template(f"{name}.html").render(view=view, **context)
        body = without_folders(body, view.collection.results)
        sections.append({"id": name, "title": section.TITLE, "body": Markup(body)})
    script = "".join((_HERE / "assets" / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return engine.get_template("page.html").render(
        view=view,
        sections=sections,
        header=header(view),
        style=Markup((_HERE / "assets" / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=digest,
    )


def header(view: View) -> dict[str, Any]:
    """What the top of the page says about the whole: coverage, versions, doubts."""
    flags = Counter(flag for row in view.measured for flag in row.flags)
    tools = Counter(_tool(row) for row in view.cells if row["tool_version"])
    times = sorted(row["measured_at"] for row in view.cells if row["measured_at"])
    plan = view.collection.plan
    return {
        "study": plan.study if plan else None,
        # A study for several machines names them with + between.
        "machine": listed(plan.machine.split("+")) if plan and plan.machine else None,
        "counts": view.coverage.counts,
        "planned": len(view.coverage.rows),
        "failed": sum(row["status"] != MISSING for row in view.coverage.incomplete),
        "elsewhere": len(view.cells) - len(view.coverage.rows),
        "flags": [(flag, count, FLAGS.get(flag)) for flag, count in flags.most_common()],
        "tools": [tool for tool, _ in tools.most_common()],
        "version": __version__,
        "first": times[0] if times else None,
        "last": times[-1] if times else None,
        "machines": sorted({row["machine"] for row in view.cells}),
        "foreign": view.collection.foreign,
    }


def without_folders(text: str, results: Path) -> str:
    """The text with paths inside a project from its root on: a page that is passed on does not
    tell where its maker's disk has it."""
    root = results.absolute().parent.as_posix().rstrip("/")
    return _FOLDERS.sub("", text.replace(f"{root}/", ""))


def data(value: Any) -> Markup:
    """The value as JSON that may stand inside <script>: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _engine() -> Environment:
    engine = Environment(
        loader=FileSystemLoader(_HERE / "templates", encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters |= {
        "number": number,
        "data": data,
        "listed": listed,
        "counted": lambda number, noun: count(noun, number),
        "minute": lambda text: text[:16].replace("T", " ") if text else "–",
    }
    return engine


def _tool(row: Row) -> str:
    commit = row["tool_commit"]
    return f"gemmgrid {row['tool_version']}" + (f" ({commit[:12]})" if commit else "")
