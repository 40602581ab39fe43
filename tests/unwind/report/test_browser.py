"""The page in a browser: drawn, searched, zoomed, sorted, by mouse and by keyboard."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.unwind.report.conftest import Open
from unwind.report.data import Doubt, Function, Image, Kind, MergedBody, MergedFunction, Profile, Report, Row, Tree
from unwind.report.rows import FrameNumbers, Shown, rows_of
from unwind.report.tree import TreeSums
from unwind.writers.stack_tree import ROOT, StackTree

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

HOSTILE = "</script><img src=x onerror=alert(1)>"
ORDER, PAYMENT, EITHER = "List<Order>::grow()", "List<Payment>::grow()", "List<Order>::grow() | List<Payment>::grow()"


def tree(payment: Row, either: Row) -> Tree:
    rows = [
        Row(0, "all", Kind.SAME, 100),
        Row(1, "main", Kind.SAME, 100),
        payment,
        Row(3, "sample()", Kind.SAME, 60),
        Row(2, ORDER, Kind.SAME, 20),
        either,
        Row(2, HOSTILE, Kind.SAME, 5),
        Row(2, "[gone.so]", Kind.UNKNOWN, 3),
    ]
    return Tree(tuple(rows), 1)


def body(name: str, size_bytes: int, doubts: tuple[Doubt, ...], total: int) -> MergedBody:
    functions = (
        MergedFunction(f"List<Order>::{name}()", f"order_{name}", True, False),
        MergedFunction(f"List<Payment>::{name}()", f"payment_{name}", False, True),
    )
    return MergedBody(0, 0x1000 + size_bytes, size_bytes, functions, doubts, total=total, settled=total)


PROFILE = Profile(
    "pcs",
    "samples",
    "count",
    samples=100,
    weight=100,
    changed=60,
    changed_self=0,
    open=12,
    unknown=3,
    settled_frames=80,
    open_frames=12,
    evidence={"dwarf": 80},
    reasons={"indirect-call": 12},
    functions=[
        Function("main", False, 0, 0, 100, 100),
        Function(ORDER, False, 32, 20, 92, 20),
        Function(PAYMENT, False, 0, 0, 0, 60),
        Function(EITHER, True, 0, 12, 0, 12),
        Function(HOSTILE, False, 5, 5, 5, 5),
    ],
    before=tree(Row(2, ORDER, Kind.CHANGED, 60, PAYMENT), Row(2, ORDER, Kind.OPEN, 12, EITHER)),
    after=tree(Row(2, PAYMENT, Kind.CHANGED, 60, ORDER), Row(2, EITHER, Kind.OPEN, 12, ORDER)),
    depth_limit=256,
)
BODIES = [body("grow", 76, (), 92), body("add", 3000, (Doubt.POINTERS,), 0)]
IMAGES = [Image("/build/shop", "abcd", True, True, 2, 4, 3076, 1, 2)]
REPORT = Report("shop.perf", IMAGES, BODIES, 0, PROFILE)


def graph(page: Page, side: str) -> Locator:
    return page.locator(f'.panel[data-side="{side}"] .graph')


def frame(page: Page, side: str, name: str) -> Locator:
    return graph(page, side).get_by_role("treeitem", name=name).first


def column(page: Page, table: str, idx: int) -> list[str]:
    return page.locator(f"#{table} tbody tr > :nth-child({idx})").all_inner_texts()


def until(page: Page, condition: str) -> None:
    """Wait for a condition; not by `wait_for_function`, which evaluates text in the page, as the page forbids."""
    end = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def test_both_graphs_are_drawn_and_what_changed_is_marked(open_report: Open) -> None:
    page = open_report(REPORT)
    assert page.title() == "shop.perf: merged functions"
    for side in ("before", "after"):
        assert graph(page, side).locator("g.frame").count() == 8
        assert graph(page, side).locator("g.changed").count() == 1
        assert graph(page, side).locator("g.open").count() == 1
        assert graph(page, side).locator("g.unknown").count() == 1
    assert frame(page, "before", f"{ORDER}; 60 %, 60 samples; it is {PAYMENT}").count() == 1
    changed = frame(page, "after", f"{PAYMENT}; 60 %, 60 samples; shown as {ORDER} today")
    until(page, "document.querySelector('[data-side=after] g.changed').textContent.includes('≠')")
    assert "≠ List<Payment>::grow()" in (changed.text_content() or "")
    fills = page.evaluate(
        "[...document.querySelectorAll('[data-side=after] g')].map(g => [g.__data__.data.k, getComputedStyle("
        "g.querySelector('rect')).fill])"
    )
    assert len({fill for _, fill in fills}) == len({kind for kind, _ in fills}) == 4


def test_names_are_shown_as_they_are(open_report: Open) -> None:
    page = open_report(REPORT)
    assert page.locator("img").count() == 0
    assert frame(page, "after", HOSTILE).count() == 1
    assert HOSTILE in column(page, "functions", 1)


def test_numbers_at_the_top(open_report: Open) -> None:
    summary = open_report(REPORT).locator("#summary").inner_text()
    for number in ("60 %", "87 %", "12 %", "3 KiB"):
        assert number in summary.splitlines()


def test_the_search_marks_frames_and_filters_tables(open_report: Open) -> None:
    page = open_report(REPORT)
    page.keyboard.press("/")
    page.keyboard.type("payment")
    until(page, "document.getElementById('found').textContent.startsWith('0 %')")
    assert page.locator("#found").inner_text() == "0 % before, 72 % after"
    assert graph(page, "before").locator("g.found").count() == 0
    assert graph(page, "after").locator("g.found").count() == 2
    assert set(column(page, "functions", 1)) == {PAYMENT, EITHER}
    assert page.locator("#functions caption").inner_text() == "Functions before and after: 2 of 5 rows"
    page.keyboard.press("Escape")
    assert page.locator("g.found").count() == 0
    assert len(column(page, "functions", 1)) == 5


def test_a_search_is_no_pattern(open_report: Open) -> None:
    page = open_report(REPORT)
    page.locator("#search").fill("(.*[")
    until(page, "document.getElementById('found').textContent")
    assert page.locator("#found").inner_text() == "0 % before, 0 % after"


def width(page: Page, side: str, name: str) -> float:
    box = frame(page, side, name).locator("rect").bounding_box()
    assert box is not None
    return box["width"]


def becomes(page: Page, share: float) -> None:
    """Wait until a function after is so wide, measured by `main`: what changes, moves for a while."""
    end = time.monotonic() + 60
    while width(page, "after", PAYMENT) != pytest.approx(share * width(page, "after", "main"), abs=2):
        assert time.monotonic() < end, share
        page.wait_for_timeout(20)


def test_a_click_zooms_in_and_the_button_out(open_report: Open) -> None:
    page = open_report(REPORT)
    becomes(page, 0.6)
    frame(page, "after", PAYMENT).click()
    until(page, "!document.getElementById('reset').disabled")
    becomes(page, 1)
    # the other graph stays; both may still grow to the width of the page
    assert width(page, "before", "main") == pytest.approx(width(page, "after", "main"), abs=2)
    page.get_by_role("button", name="Reset zoom").click()
    becomes(page, 0.6)
    assert page.locator("#reset").is_disabled()


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.id"))


def test_the_keyboard_walks_and_zooms(open_report: Open) -> None:
    page = open_report(REPORT)
    page.locator("#order").focus()
    page.keyboard.press("Tab")
    assert focused(page).startswith("all; 100 %")
    for key, name in (
        ("ArrowDown", "main"),
        ("ArrowDown", ORDER),
        ("ArrowRight", ORDER),
        ("ArrowRight", ORDER),
        ("ArrowRight", HOSTILE),
        ("ArrowLeft", ORDER),
        ("ArrowUp", "main"),
        ("Home", "all"),
        ("ArrowUp", "all"),
    ):
        page.keyboard.press(key)
        assert focused(page).startswith(f"{name};"), key
    page.keyboard.press("Tab")  # one stop for a graph
    assert focused(page).startswith("all;") and page.evaluate(
        "document.activeElement.closest('.panel').dataset.side === 'after'"
    )
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert focused(page).startswith(PAYMENT) and not page.locator("#reset").is_disabled()
    details = page.locator('.panel[data-side="after"] .details').inner_text()
    assert details == f"{PAYMENT}; 60 %, 60 samples; shown as {ORDER} today"
    page.keyboard.press("Escape")
    assert page.locator("#reset").is_disabled() and focused(page).startswith(PAYMENT)


def test_tables_sort(open_report: Open) -> None:
    page = open_report(REPORT)
    assert column(page, "functions", 6) == ["100 %", "60 %", "20 %", "12 %", "5 %"]
    head = page.locator("#functions").get_by_role("columnheader", name="Function")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    names = column(page, "functions", 1)
    assert names == sorted(names, key=str.lower)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, "functions", 1) == names[::-1]
    page.get_by_label("Only those that change").check()
    assert len(column(page, "functions", 1)) == 3


def test_light_and_dark(open_report: Open) -> None:
    def back(page: Page) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = open_report(REPORT), open_report(REPORT, scheme="dark")
    assert back(light) == "rgb(255, 255, 255)" and back(dark) == "rgb(20, 23, 28)"
    light.get_by_role("button", name="Switch to dark colours").click()
    dark.get_by_role("button", name="Switch to light colours").click()
    assert back(light) == "rgb(20, 23, 28)" and back(dark) == "rgb(255, 255, 255)"


CONTRAST = """() => {
  const parts = (text) => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (text) => {
    const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = parts(text).map((each) => linear(each / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const found = [];
  for (const g of document.querySelectorAll('g.frame')) {
    const [rect, label] = [g.querySelector('rect'), g.querySelector('.d3-flame-graph-label')];
    const colours = [getComputedStyle(rect).fill, getComputedStyle(label).color];
    found.push([g.__data__.data.k, ratio(...colours)]);
  }
  const texts = '.note, caption, dt, dd, td, th button, h1, h2, h3, .details, .title p';
  for (const each of document.querySelectorAll(texts)) {
    let under = each;
    while (getComputedStyle(under).backgroundColor === 'rgba(0, 0, 0, 0)') under = under.parentElement;
    found.push([each.className || each.tagName,
      ratio(getComputedStyle(each).color, getComputedStyle(under).backgroundColor)]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(open_report: Open, scheme: str) -> None:
    """Web Content Accessibility Guidelines 2.2, 1.4.3: 4.5 to 1."""
    found = open_report(REPORT, scheme=scheme).evaluate(CONTRAST)
    assert len(found) > 50
    assert [(name, ratio) for name, ratio in found if ratio < 4.5] == []


def test_screen_readers_find_names(open_report: Open) -> None:
    page = open_report(REPORT)
    tree = page.locator("body").aria_snapshot()
    for line in (
        'heading "shop.perf" [level=1]',
        'searchbox "Search functions"',
        'heading "Flame graphs" [level=2]',
        "tree \"Before: one name for each body, as today''s tools show it\"",
        'tree "After: which functions these were"',
        'group "Show"',
        'radio "Both" [checked]',
        'combobox "Order"',
        'button "Reset zoom" [disabled]',
        'table "Merged bodies: 2 rows"',
        'columnheader "Function"',
    ):
        assert line in tree, line
    levels = page.locator('[data-side="after"] g').evaluate_all("all => all.map(each => +each.ariaLevel)")
    assert levels == [1, 2, 3, 4, 3, 3, 3, 3]  # in the order of a tree
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, summary')].filter(each => !(each.textContent.trim()"
        " || each.getAttribute('aria-label') || each.labels?.length)).length"
    )
    assert nameless == 0


def test_one_graph_alone_and_a_small_window(open_report: Open) -> None:
    page = open_report(REPORT, size=(400, 700))
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_label("After", exact=True).check()
    assert not graph(page, "before").is_visible() and graph(page, "after").is_visible()
    page.set_viewport_size({"width": 900, "height": 700})
    until(page, "document.querySelector('[data-side=after] svg').clientWidth > 700")
    page.get_by_label("Both").check()
    until(page, "document.querySelector('[data-side=before] svg').clientWidth > 700")


def test_merged_bodies_show_their_functions(open_report: Open) -> None:
    page = open_report(REPORT)
    row = page.locator("#bodies tbody tr").first
    row.locator("summary").click()
    assert row.locator("li").all_inner_texts() == [
        "List<Order>::grow() shown today",
        "List<Payment>::grow() a pointer may lead here",
    ]
    assert page.locator("#doubts dt").all_inner_texts() == ["pointers"]
    assert page.locator("#doubts dd").all_inner_texts() == ["Calls through pointers lead to several of its functions."]
    assert page.locator("#bodies tbody tr").last.locator(".mark").all_text_contents()[-1] == "pointers"


def test_an_image_has_no_graphs(open_report: Open) -> None:
    page = open_report(Report("shop", IMAGES, BODIES, 0))
    assert not page.locator("#flames").is_visible() and not page.locator("#functions").is_visible()
    assert column(page, "bodies", 4) == ["2.93 KiB", "76 bytes"]
    page.locator("#search").fill("payment_grow")
    until(page, "document.getElementById('found').textContent")
    assert page.locator("#found").inner_text() == "1 merged body"


def large() -> Report:
    """Return the report of a million samples with twenty thousand different stacks."""
    choose, numbers, stacks = random.Random(1), FrameNumbers(), StackTree()
    frames = [numbers.of(Shown(f"namespace_{idx % 40}::Function<{idx}>::run(int)")) for idx in range(3000)]
    for _ in range(20_000):
        depth = choose.randrange(5, 40)
        stack = [frames[min(int(choose.expovariate(0.6) + level * 7), 2999)] for level in range(depth)]
        stacks.weights[stacks.add(ROOT, stack)] += 50
    after = rows_of(TreeSums(stacks), numbers.frames)
    return Report(
        "large", [], [], 0, Profile("pcs", "samples", "count", 1_000_000, 1_000_000, before=after, after=after)
    )


def test_a_million_samples_open_within_seconds(open_report: Open) -> None:
    report = large()
    assert report.profile is not None and len(report.profile.after.rows) > 5000
    began = time.monotonic()
    page = open_report(report)
    assert graph(page, "after").locator("g.frame").count() > 500
    page.locator("#search").fill("Function<21>")
    until(page, "document.getElementById('found').textContent")
    assert time.monotonic() - began < 90  # a few seconds, on a machine that does nothing else
