"""The HTML report: what stands in it, always; how it looks and works, where Chromium is installed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.browser import CHROMIUM, Browser, browser
from tests.conformance.recorded import HAND, hand
from tests.conformance.test_runner import invoke

from loopconform import report_html
from loopconform.judge.verdict import Fault
from loopconform.protocol.case import load_cases
from loopconform.report_html.kills import Kill, Kills, load
from loopconform.runner.results import Message, Result, Run

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
KILLS = Kills(
    (
        Kill(mutant="driver/no-latch", clause="L-SEND-9", case="wake/after-cancel", words="A wake is forgotten."),
        Kill(mutant="driver/same", fate="equivalent", words="driver at its first bound"),
        Kill(mutant="driver/hangs", fate="dead", case="smoke/text"),
        Kill(mutant="driver/unseen", fate="unobservable", words="driver, at gates"),
        Kill(mutant="driver/other", fate="lawful", case="smoke/text", words="Both are right."),
        Kill(mutant="driver/alive", fate="hole"),
    )
)


def a_run() -> Run:
    """Every hand case once: three failures, one of each other verdict but one, and two that were never run."""
    cases = list(load_cases([HAND]))
    results = [Result(case, "seed", "PASS") for case in cases]
    fault = Fault("a", "this is not legal here", "L-SEND-9", "A sentence.", "may_claim", ("record turn/start",),
                  "live agent/status", ("record 0", HOSTILE), 2)  # fmt: skip
    said = (
        Message("suite", {"verb": "do", "ops": [{"op": "followup", "agent": "a"}]}),
        Message("adapter", {"type": "returned", "id": 1, "op": 0}),
        Message("adapter", {"type": "live", "name": "agent/status", "data": {"text": HOSTILE}}),
    )
    for at in (3, 5, 7):
        case = cases[at]
        shrunk = case.with_program(case.program[:2]) if at == 3 else None
        results[at] = Result(case, "seed", "FAIL", fault.reason, fault, said, shrunk=shrunk, runs=9)
    results[8] = Result(cases[8], "seed", "UNDETERMINED", "a bound was hit")
    results[9] = Result(cases[9], "seed", "NOT_IMPLEMENTED", "the adapter has no gate:setup")
    results[10] = Result(cases[10], "seed", "ADAPTER_ERROR", HOSTILE)
    stale = ("smoke/text is declared FAIL, and is PASS: take the line out",)
    return Run("x", f"wrong loop {HOSTILE}", tuple(results), (results[5].key,), stale, wanted=len(results) + 2)


class Page(HTMLParser):
    """The elements of a page: each with its attributes, and the text below it."""

    VOID = ("meta", "input", "img", "br", "link")

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.unbalanced: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        text: list[str] = []
        self.elements.append((tag, {name: value or "" for name, value in attrs}, text))
        if tag not in self.VOID:
            self._open.append((tag, text))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop()[0] != tag:
            self.unbalanced.append(tag)
        if tag in ("td", "th"):
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        for _, text in self._open:
            text.append(data)

    def all(self, tag: str = "", **wanted: str) -> list[tuple[dict[str, str], str]]:
        """Attributes and text of all elements of a tag (or any) that have these attributes."""
        names = {name.rstrip("_").replace("_", "-"): value for name, value in wanted.items()}
        return [
            (attributes, " ".join("".join(text).split()))
            for found, attributes, text in self.elements
            if tag in ("", found) and all(attributes.get(name) == value for name, value in names.items())
        ]


@pytest.fixture(scope="module")
def run() -> Run:
    return a_run()


@pytest.fixture(scope="module")
def source(run: Run) -> str:
    return report_html.render(run, "0.1", KILLS)


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


# -- without a browser ---------------------------------------------------------------------------------------------


def test_the_file_needs_nothing_else(page: Page, source: str) -> None:
    assert page.unbalanced == []
    assert not page.all("link")
    assert not page.all("img")
    loads = [(tag, name) for tag, attributes, _ in page.elements for name in attributes if name in ("src", "srcset")]
    assert loads == []
    assert all(attributes["href"].startswith("#") for attributes, _ in page.all("a"))
    style = page.all("style")[0][1]
    assert "@import" not in style
    assert "url(" not in style
    policy = next(a["content"] for a, _ in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_what_an_adapter_says_stays_text(page: Page) -> None:
    assert len(page.all("script")) == 2
    assert not any(name.startswith("on") for _, attributes, _ in page.elements for name in attributes)
    assert HOSTILE in page.all("h1")[0][1]


def test_every_verdict_is_counted_apart_and_the_denominator_is_what_was_expected(page: Page, run: Run) -> None:
    size = len(run.results)
    tiles = {a["data-verdict"]: int(a["data-count"]) for a, _ in page.all("li") if "data-count" in a}
    rest = {"UNDETERMINED": 1, "NOT_IMPLEMENTED": 1, "HARNESS_ERROR": 0, "ADAPTER_ERROR": 1, "NOT_RUN": 2}
    assert tiles == {"PASS": size - 6, "FAIL": 3, **rest}
    assert f"{size - 6} of {size + 2} expected checks passed" in [text for _, text in page.all("p")]
    assert any("1 result that is no pass was declared beforehand" in text for _, text in page.all("p"))
    assert [text for _, text in page.all("ul", class_="stale")] == list(run.stale)


def test_the_areas_add_up(page: Page, run: Run) -> None:
    areas = Counter(result.case.area for result in run.results)
    failed = Counter(result.case.area for result in run.results if result.verdict == "FAIL")
    rows = {a["data-area"]: text.split() for a, text in page.all("tr") if "data-area" in a}
    assert {area: int(row[-1]) for area, row in rows.items()} == areas
    assert {area: int(row[2]) for area, row in rows.items() if row[2] != "0"} == failed
    total = page.all("tfoot")[0][1].split()
    assert [int(number) for number in total[2:]] == [len(run.results) - 6, 3, 1, 1, 0, 1, len(run.results)]


def test_a_failure_has_its_whole_account(page: Page, run: Run) -> None:
    failures = page.all("article")
    assert [a["data-verdict"] for a, _ in failures] == ["FAIL"] * 3 + [
        "UNDETERMINED", "NOT_IMPLEMENTED", "ADAPTER_ERROR",
    ]  # fmt: skip
    text = failures[0][1]
    for part in ("L-SEND-9 : A sentence.", "this is not legal here", "may_claim", "record turn/start",
                 "the shortest that still fails, found in 9 runs", "live agent/status", HOSTILE):  # fmt: skip
        assert part.replace(" :", ":") in text.replace(" :", ":")
    assert page.all("pre")[0][1].startswith("1 open")
    assert "as declared" in failures[1][1]
    assert "as the case has it" in failures[1][1]
    steps = [(a["class"], text) for a, text in page.all("li") if a.get("class") in ("ask", "answer", "tell")][:3]
    assert [kind for kind, _ in steps] == ["ask", "answer", "tell"]
    assert [text for _, text in steps][:2] == ["suite: do followup", "adapter: returned 1.0"]


def test_clauses_name_their_cases(page: Page, run: Run) -> None:
    data = json.loads(page.all("script", id="data")[0][1])
    wanted: dict[str, list[str]] = {}
    for result in run.results:
        for clause in result.case.clauses:
            wanted.setdefault(clause, []).append(result.case.id)
    found = {clause: [data["cases"][at][1] for at in places] for clause, places in data["clauses"].items()}
    assert found == wanted
    assert [a["data-clause"] for a, _ in page.all("details") if "data-clause" in a] == list(data["clauses"])
    families = [clause.rpartition("-")[::2] for clause in data["clauses"]]
    numbered = [(one, two) for one, two in pairwise(families) if one[0] == two[0] and (one[1] + two[1]).isdecimal()]
    assert len(numbered) > 5
    assert all(int(one) < int(two) for (_, one), (_, two) in numbered)
    anchors = {a["id"] for _, a, _ in page.elements if "id" in a}
    assert all(a["href"][1:] in anchors for a, _ in page.all("a"))
    assert all(anchor in anchors for anchor, _, _ in data["cases"])


def test_headings_and_landmarks(page: Page) -> None:
    levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("main")) == 1
    assert page.all("html")[0][0]["lang"] == "en"
    first = next(a for a, _ in page.all("a"))
    assert (first["class"], first["href"]) == ("skip", "#main")
    ids = [a["id"] for _, a, _ in page.elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_kill_matrix(page: Page, run: Run, tmp_path: Path) -> None:
    fates = {a["data-fate"]: int(text) for a, text in page.all("dd") if "data-fate" in a}
    assert fates == {"killed": 1, "dead": 1, "equivalent": 1, "unobservable": 1, "lawful": 1, "hole": 1}
    rows = [text for _, text in page.all("ul", class_="kills")]
    assert rows == [
        "driver/hangs in smoke/text",
        "driver/other Both are right. in smoke/text",
        "driver/alive",
        "driver/same driver at its first bound",
        "driver/unseen driver, at gates",
        "driver/no-latch A wake is forgotten. killed by wake/after-cancel",
    ]
    assert load(tmp_path / "kills.json") is None
    assert 'id="kills"' not in report_html.render(run, "0.1", None)
    path = tmp_path / "kills.json"
    path.write_text('[{"fault": "m", "clause": ["A-1", "B-2"], "case": null, "more": 1}, {"mutant": "n", "case": "c"}]')
    assert load(path) == Kills((Kill(mutant="m", clause="A-1, B-2", fate="hole"), Kill(mutant="n", case="c")))
    for text in ("{", "{}", '[{"clause": "A-1"}]', '[{"mutant": "m", "fate": "unsure"}]'):
        path.write_text(text)
        found = load(path)
        assert found is not None
        assert found.trouble.startswith("kills.json is not a list of kills")
        assert "kills.json is not a list of kills" in report_html.render(run, "0.1", found)


def test_nothing_run_and_all_passed_have_a_page_too() -> None:
    empty = Page(report_html.render(Run("x", "", (), wanted=4), "0.1"))
    assert "0 of 4 expected checks passed" in [text for _, text in empty.all("p")]
    passed = Page(report_html.render(Run("x", "", (Result(hand("smoke/text"), "seed", "PASS"),), wanted=1), "0.1"))
    assert "1 of 1 expected checks passed" in [text for _, text in passed.all("p")]
    assert not passed.all("section", id="failures")


def test_the_command_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    cases = ("--adapter", "python-reference", "--cases", str(HAND), "--case", "smoke/*")
    code, text = invoke(*cases, "--format", "html", "--output", str(path), "--no-progress")
    assert (code, text) == (0, "")
    assert "5 of 5 expected checks passed" in [text for _, text in Page(path.read_text()).all("p")]


# -- in a browser --------------------------------------------------------------------------------------------------

in_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: how the report looks is not tested"
)
VISIBLE = "[...document.querySelectorAll('[data-kind={}]')].filter(e => !e.hidden).length"
CONTRAST = """
(() => {
  const parse = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (parse(colour).length < 4 || parse(colour)[3] > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if (!e.checkVisibility() || e.closest("script, style, .hidden")) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${e.tagName}.${e.className} ${ratio.toFixed(2)}`);
  }
  return [...new Set(bad)];
})()
"""


@pytest.fixture(scope="module")
def tab(source: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "report.html").write_text(source, encoding="utf-8")
    with browser(folder / "profile") as one:
        one.open((folder / "report.html").as_uri())
        yield one


def focused(tab: Browser) -> Any:
    return tab.ask("document.activeElement.id || document.activeElement.textContent.trim().replace(/\\s+/g, ' ')")


@in_browser
def test_it_loads_alone_and_says_nothing(tab: Browser) -> None:
    assert [address.split(":")[0] for address in tab.asked] == ["file"]
    assert tab.said == []
    assert tab.ask("document.title").endswith("Loopspec conformance"), "nobody else wrote the title"


@in_browser
def test_the_keyboard_reaches_and_opens_everything(tab: Browser) -> None:
    tab.ask("document.activeElement.blur(); scrollTo(0, 0)")
    tab.press("Tab")
    assert focused(tab) == "Skip to the results"
    assert tab.ask("document.activeElement.getBoundingClientRect().top >= 0"), "the skip link shows itself"
    tab.press("Enter")
    assert focused(tab) == "main"
    tab.ask("document.querySelector('.failure summary').focus()")
    tab.press("Enter")
    assert tab.ask("document.querySelector('.failure details').open")
    tab.press("Tab")
    assert tab.ask("document.activeElement.matches('.many a')"), "the first link of the account comes next"
    assert tab.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    clause = tab.ask("document.activeElement.textContent")
    tab.press("Enter")
    tab.settle()
    assert tab.ask(f"document.getElementById('clause-{clause}').open"), "a link opens what it leads to"
    assert tab.ask("document.activeElement.parentElement.dataset.clause") == clause


@in_browser
def test_the_filter(tab: Browser, run: Run) -> None:
    everything = len(run.results)
    assert tab.ask(VISIBLE.format("case")) == everything
    tab.ask("document.querySelector('.toggle[data-verdict=FAIL]').focus()")
    tab.press(" ")
    assert tab.ask("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert (tab.ask(VISIBLE.format("case")), tab.ask(VISIBLE.format("failure"))) == (3, 3)
    assert tab.ask("document.getElementById('found').textContent").startswith(f"3 of {everything} cases fit")
    named = run.results[3].case
    tab.ask("document.getElementById('words').focus()")
    tab.write(named.id)
    tab.settle()
    assert tab.ask(VISIBLE.format("case")) == 1
    assert tab.ask(VISIBLE.format("clause")) == len(named.clauses)
    tab.ask("document.querySelector('.reset').focus()")
    tab.press("Enter")
    tab.settle()
    assert tab.ask(VISIBLE.format("case")) == everything
    clause = run.results[0].case.clauses[0]
    tab.ask("document.getElementById('words').focus()")
    tab.write("may_claim")
    assert (tab.ask(VISIBLE.format("case")), tab.ask(VISIBLE.format("failure"))) == (3, 3), "found by its failure"
    tab.ask("document.getElementById('words').value = ''")
    tab.write(clause.lower())
    tab.settle()
    assert 0 < tab.ask(VISIBLE.format("case")) < everything
    passing = next(at for at, result in enumerate(run.results, 1) if clause not in " ".join(result.case.clauses))
    tab.ask(f"location.hash = 'case-{passing}'")
    tab.settle()
    tab.settle()
    assert tab.ask(VISIBLE.format("case")) == everything, "a link to what is hidden shows it"


@in_browser
def test_a_clause_lists_all_its_cases_once_it_is_opened(tab: Browser, run: Run) -> None:
    clauses = Counter(clause for result in run.results for clause in result.case.clauses)
    clause, count = clauses.most_common(1)[0]
    tab.ask(f"document.getElementById('clause-{clause}').open = true")
    tab.settle()
    assert tab.ask(f"document.querySelectorAll('#clause-{clause} li').length") == count


@in_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1100])
def test_it_fits_and_can_be_read(tab: Browser, width: int, dark: bool, tmp_path: Path) -> None:
    tab.look(width, dark=dark)
    tab.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tab.settle()
    assert tab.ask("document.documentElement.scrollWidth") == width, "no sideways scrolling"
    ground = tab.ask("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 22, 26)" if dark else "rgb(251, 250, 248)")
    assert tab.ask(CONTRAST) == []
