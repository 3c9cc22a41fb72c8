"""The report in a real browser: it sorts, filters, changes theme, and asks the network nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgrid.report.page import page
from gemmgrid.report.read.collect import collect
from tests.browser.webdriver import Browser
from tests.report import synthetic
from tests.report.page.test_page import hostile_study

ENTER, TAB = "\ue007", "\ue004"


def column(browser: Browser, heading: str) -> list[str]:
    """The texts of one column of the big table, as shown."""
    script = """
        const heads = [...document.querySelectorAll('#cells thead th')];
        const index = heads.findIndex((head) => head.textContent.trim() === arguments[0]);
        const rows = [...document.querySelectorAll('#cells tbody tr')];
        return rows.map((row) => row.cells[index].textContent);
    """
    found: list[str] = browser.run(script, heading)
    return found


def sort_by(browser: Browser, key: str) -> None:
    browser.find(f"#cells [data-sort={key}]").click()


def choose(browser: Browser, key: str, value: str) -> None:
    browser.find(f"#filters [data-key={key}] option[value='{value}']").click()


def numbers(texts: list[str]) -> list[float]:
    return [float(text) for text in texts if text != "–"]


def background(browser: Browser) -> str:
    return str(browser.run("return getComputedStyle(document.body).backgroundColor"))


def test_opens_from_disk_without_a_word_or_a_request(browser: Browser, report: Path) -> None:
    browser.complaints()
    browser.requests()
    browser.open(report.as_uri())
    sort_by(browser, "gflops")
    browser.find("#theme").click()
    assert browser.complaints() == []
    asked = [url for url in browser.requests() if not url.startswith("data:")]
    assert asked == [report.as_uri()]


def test_sorting_fastest_first_then_slowest(opened: Browser) -> None:
    sort_by(opened, "gflops")
    fastest = numbers(column(opened, "GFLOP/s"))
    assert fastest == sorted(fastest, reverse=True)
    head = opened.find("#cells th:has([data-sort=gflops])")
    assert head.attribute("aria-sort") == "descending"
    sort_by(opened, "gflops")
    slowest = numbers(column(opened, "GFLOP/s"))
    assert slowest == sorted(slowest)
    assert head.attribute("aria-sort") == "ascending"
    assert slowest[0] < fastest[0]


def test_what_has_no_rate_sorts_last_either_way(opened: Browser) -> None:
    choose(opened, "backend", "mlx-cpu")
    choose(opened, "machine", "machine-a")
    assert set(column(opened, "backend")) == {"mlx-cpu"}
    for _ in range(2):
        sort_by(opened, "gflops")
        texts = column(opened, "GFLOP/s")
        unknown = texts.count("–")
        assert unknown > 0
        assert texts[-unknown:] == ["–"] * unknown


def test_sizes_sort_as_numbers(opened: Browser) -> None:
    choose(opened, "routine", "gemm")
    choose(opened, "machine", "machine-a")
    sort_by(opened, "shape")
    sizes = [int(text.partition("×")[0]) for text in column(opened, "m×n×k")]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 2


def test_texts_sort_by_name(opened: Browser) -> None:
    sort_by(opened, "backend")
    names = column(opened, "backend")
    assert names == sorted(names)


def test_filters_join_and_are_cleared(opened: Browser) -> None:
    everything = opened.find("#shown").text
    choose(opened, "backend", "torch-cpu")
    choose(opened, "dtype", "float64")
    opened.wait_for(lambda: set(column(opened, "backend")) == {"torch-cpu"})
    opened.wait_for(lambda: set(column(opened, "dtype")) == {"float64"})
    assert opened.find("#shown").text != everything
    opened.find("#filters [type=reset]").click()
    opened.wait_for(lambda: opened.find("#shown").text == everything)


def test_search_looks_into_everything(opened: Browser) -> None:
    opened.find("#search").type("SIGSEGV")
    opened.wait_for(lambda: column(opened, "status") == ["crashed"])


def test_search_without_a_match_says_so(opened: Browser) -> None:
    opened.find("#search").type("no such thing")
    opened.wait_for(lambda: column(opened, "status") == [])
    assert opened.find("#shown").text.startswith("0 of ")


def test_a_row_opens_to_everything_known_and_closes(opened: Browser) -> None:
    opened.find("#search").type("SIGSEGV")
    opened.wait_for(lambda: column(opened, "status") == ["crashed"])
    button = opened.find("#cells .open")
    button.click()
    details = opened.find("#cells tr.details")
    assert "the process died of SIGSEGV while sampling" in details.text
    assert "snakemake --cores 1 -f " in details.text
    assert button.attribute("aria-expanded") == "true"
    button.click()
    assert opened.find_all("#cells tr.details") == []


def test_the_keyboard_is_enough(opened: Browser) -> None:
    opened.run("document.querySelector('#cells [data-sort=backend]').focus()")
    opened.press(ENTER)
    assert column(opened, "backend") == sorted(column(opened, "backend"))
    opened.run("document.querySelector('#cells .open').focus()")
    opened.press(ENTER)
    assert len(opened.find_all("#cells tr.details")) == 1


def test_the_first_stop_of_the_keyboard_skips_to_the_content(opened: Browser) -> None:
    opened.run("document.body.focus(); window.focus()")
    opened.press(TAB)
    opened.wait_for(lambda: opened.run("return document.activeElement.className") == "skip")
    opened.press(ENTER)
    opened.wait_for(lambda: opened.run("return location.hash") == "#content")


def test_many_rows_come_in_parts(opened: Browser) -> None:
    total = opened.run("return JSON.parse(document.getElementById('data').textContent).rows.length")
    assert total > 100
    assert len(column(opened, "backend")) == 100
    opened.find("#more").click()
    assert len(column(opened, "backend")) == total
    assert not opened.find("#more").displayed


def test_the_theme_follows_the_system_until_it_is_chosen(opened: Browser) -> None:
    light = background(opened)
    opened.prefer("dark")
    dark = background(opened)
    assert dark != light
    button = opened.find("#theme")
    assert button.text == "theme: auto"
    button.click()
    assert (button.text, background(opened)) == ("theme: light", light)
    opened.prefer("light")
    button.click()
    assert (button.text, background(opened)) == ("theme: dark", dark)


def test_the_chosen_theme_is_remembered(opened: Browser, report: Path) -> None:
    opened.find("#theme").click()
    opened.find("#theme").click()
    dark = background(opened)
    opened.open(report.as_uri())
    assert background(opened) == dark
    assert opened.find("#theme").text == "theme: dark"


def test_drawings_follow_the_theme(opened: Browser) -> None:
    script = """
        const text = document.querySelector('#sweep figure svg text');
        const line = [...document.querySelectorAll('#sweep figure svg path')]
            .find((path) => path.getAttribute('style')?.includes('stroke: var(--s'));
        return [getComputedStyle(text).fill, getComputedStyle(line).stroke];
    """
    light = opened.run(script)
    opened.prefer("dark")
    dark = opened.run(script)
    assert light[0] != dark[0]
    assert light[1] != dark[1]


@pytest.mark.parametrize("width", [375, 768, 1200, 2200])
def test_the_page_itself_never_scrolls_sideways(opened: Browser, width: int) -> None:
    opened.resize(width, 800, mobile=width < 500)
    opened.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    opened.find("#cells .open").click()
    assert opened.run("return document.documentElement.scrollWidth") <= width


def test_drawings_can_be_read_on_a_phone(opened: Browser) -> None:
    opened.resize(375, 800, mobile=True)
    script = """
        const text = document.querySelector('#sweep figure svg text');
        return text.getBoundingClientRect().height;
    """
    assert opened.run(script) >= 9


def test_a_command_is_copied(opened: Browser) -> None:
    opened.devtools(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    button = opened.find("#unmeasured button.copy")
    button.click()
    opened.run("return new Promise((done) => setTimeout(done, 50))")
    assert button.text in ("copied", "selected: press Ctrl+C")


def test_the_lesson_is_checked_line_by_line(opened: Browser) -> None:
    articles = opened.find_all("#lesson article")
    verdicts = [one.text for one in opened.find_all("#lesson h3 .verdict")]
    assert len(articles) == len(verdicts) > 5
    assert {"agrees", "not seen here"} <= set(verdicts)
    script = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
    assert opened.run(script, "#lesson [data-verdict=agrees]") != opened.run(
        script, "#lesson [data-verdict='not seen here']"
    )
    command = opened.find("#lesson details .command")
    assert not command.displayed
    opened.find("#lesson details summary").click()
    assert command.displayed
    assert "snakemake --cores 1 explain --config 'expr=" in command.text


def test_paper_shows_the_light_theme_without_controls(opened: Browser) -> None:
    light = background(opened)
    opened.find("#theme").click()
    opened.find("#theme").click()
    assert background(opened) != light
    opened.devtools("Emulation.setEmulatedMedia", media="print")
    assert background(opened) == light
    assert not opened.find("nav").displayed
    assert not opened.find("#filters").displayed
    assert opened.find("#cells [data-sort=gflops]").displayed
    opened.devtools("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [375, 1200])
def test_what_another_machine_ran_is_apart_and_loud(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    synthetic.write_cluster(tmp_path / "results")
    page.write(collect(tmp_path / "results"), tmp_path / "index.html")
    browser.resize(width, 800, mobile=width < 500)
    browser.open((tmp_path / "index.html").as_uri())
    assert "icelake~7f3a2c" in browser.find("#overview .alarm").text
    assert browser.run("return document.documentElement.scrollWidth") <= width
    choose(browser, "machine", "icelake")
    assert "other-machine" not in " ".join(column(browser, "flags"))
    choose(browser, "machine", "icelake~7f3a2c")
    assert len(column(browser, "flags")) == 3
    assert all("other-machine" in text for text in column(browser, "flags"))
    browser.find("#cells .open").click()
    details = browser.find("#cells tr.details").text
    assert "node mil1, partition short, features milan, job 40123, shared" in details
    assert "64 CPUs are promised, 2 may be used" in details
    colour = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
    badge = browser.run(colour, "#cells [data-flag=other-machine]")
    assert badge == browser.run(colour, "#foreign_runs [data-status=crashed]")
    assert badge != browser.run(colour, "#cells [data-flag=one-round]")


def test_what_strangers_write_does_nothing(browser: Browser, tmp_path: Path) -> None:
    hostile_study(tmp_path / "results")
    page.write(collect(tmp_path / "results"), tmp_path / "index.html")
    browser.complaints()
    browser.requests()
    browser.open((tmp_path / "index.html").as_uri())
    for button in browser.find_all("#cells .open"):
        button.click()
    assert browser.run("return document.title").startswith("gemmgrid: </script>")
    assert browser.find_all("img") == []
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []


def test_an_injected_script_would_be_stopped(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    """The second line of defence: were something let through unescaped, the policy stops it."""
    html = report.read_text(encoding="utf-8")
    injected = (
        "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    )
    broken = tmp_path / "broken.html"
    broken.write_text(html.replace("<main", injected + "<main", 1), encoding="utf-8")
    browser.open(broken.as_uri())
    assert browser.run("return document.title") == "gemmgrid: synthetic"
    assert any("Content Security Policy" in text for text in browser.complaints())


def test_two_thousand_rows_work(browser: Browser, tmp_path: Path) -> None:
    for index in range(2000):
        backend = ("numpy-openblas", "torch-cpu")[index % 2]
        document = synthetic.run(
            synthetic.gemm(8 + index // 2), backend=backend, invocations=2, samples=2
        )
        synthetic.write_run(tmp_path / "results", document)
    page.write(collect(tmp_path / "results"), tmp_path / "index.html")
    browser.open((tmp_path / "index.html").as_uri())
    assert browser.find("#shown").text == "2000 of 2000 cells match, the first 100 are shown"
    browser.find("#more").click()
    sort_by(browser, "gflops")
    rates = numbers(column(browser, "GFLOP/s"))
    assert len(rates) == 2000
    assert rates == sorted(rates, reverse=True)
    choose(browser, "backend", "torch-cpu")
    assert browser.find("#shown").text.startswith("1000 of 2000")
