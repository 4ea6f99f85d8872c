"""The report in a real browser: sorted and searched, on a telephone, in the dark, offline."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from plackett.experiments.compare import compare
from plackett.experiments.report.write import write_files
from small_systems import FeatureRanker, small_data
from webdriver import CHROMIUM, DRIVER, Browser

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None or not sys.platform.startswith("linux"),
    reason="there is no browser here (Debian's packages: chromium, chromium-driver; as root, "
    "`make test-tools` installs them)",
)

_TELEPHONE = 390
_SYSTEMS = {
    "base": FeatureRanker(feature=3),
    "other": FeatureRanker(feature=0),
    "a system whose name is long enough to be a nuisance": FeatureRanker(feature=1),
}


@pytest.fixture(scope="module")
def compared():
    return compare(small_data(), _SYSTEMS, protocol="folds:3", metrics="ndcg@5,ndcg@10,map,err@10")


@pytest.fixture(scope="module")
def page(compared, tmp_path_factory) -> Path:
    return write_files(compared, tmp_path_factory.mktemp("report"), formats=()).report


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    result = Browser(tmp_path_factory.mktemp("profile"))
    yield result
    result.close()


@pytest.fixture
def shown(browser, page) -> Browser:
    """The report in a wide window."""
    browser.open(page)
    return browser


def _complaints(browser: Browser) -> list[str]:
    return [entry["message"] for entry in browser.log("browser")]


def _texts(browser: Browser, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
    actual: list[str] = browser.run(script, selector)
    return actual


def _differences(browser: Browser) -> list[float]:
    actual = _texts(browser, "#queries tbody tr:not(.documents) td:last-child")
    return [float(text.replace("−", "-")) for text in actual]


def _click(browser: Browser, selector: str) -> None:
    browser.run("document.querySelector(arguments[0]).click()", selector)


def _set(browser: Browser, name: str, value: str) -> None:
    script = """
    const element = document.getElementById(arguments[0]);
    element.value = arguments[1];
    for (const kind of ["input", "change"]) element.dispatchEvent(new Event(kind));
    """
    browser.run(script, name, value)


def test_the_page_asks_for_nothing_from_elsewhere_and_nobody_complains(shown, page) -> None:
    _click(shown, "button.name")
    asked = [url for url in shown.requests() if not url.startswith("data:")]
    assert asked == [page.as_uri()]
    assert _complaints(shown) == []


def test_the_leaderboard_is_sorted_by_any_column(shown, compared) -> None:
    means = {e.name: e.means["map"] for e in compared.board.entries}
    best_first = sorted(means, key=lambda name: -means[name])
    names = "table.board tbody td:first-child"
    _click(shown, "table.board th:nth-child(4) button")
    assert _texts(shown, "table.board th:nth-child(4)") == ["map"]
    actual = [name.split("\n")[0].replace(" baseline", "") for name in _texts(shown, names)]
    assert actual == best_first
    _click(shown, "table.board th:nth-child(4) button")
    actual = [name.split("\n")[0].replace(" baseline", "") for name in _texts(shown, names)]
    assert actual == best_first[::-1]
    script = "return [...document.querySelectorAll('table.board th')].map((e) => e.ariaSort)"
    assert shown.run(script) == [None, None, None, "ascending", None, None]
    assert _complaints(shown) == []


def test_queries_are_listed_by_their_difference_and_one_opens_at_a_click(shown, compared) -> None:
    values = compared.results.values
    d = values["other"]["ndcg@5"] - values["base"]["ndcg@5"]
    expected = np.sort(d[np.isfinite(d)])[::-1][:25]
    assert _differences(shown) == pytest.approx(expected.tolist(), abs=6e-5)
    _click(shown, "button.name")
    assert len(_texts(shown, "tr.documents")) == 1
    assert len(_texts(shown, "tr.documents ol")) == 2
    _click(shown, "button.name")
    assert _texts(shown, "tr.documents") == []


def test_queries_are_searched_sorted_and_filtered(shown) -> None:
    _set(shown, "kind", "lost")
    _click(shown, "th.difference button")
    _set(shown, "search", "1")
    actual = _differences(shown)
    assert actual
    assert actual == sorted(actual)
    assert max(actual) < 0
    names = _texts(shown, "#queries button.name")
    assert names
    assert all("1" in name for name in names)
    (count,) = _texts(shown, "#count")
    assert count.startswith(f"{len(actual)} of ")
    _set(shown, "search", "no such query")
    assert _differences(shown) == []
    assert _complaints(shown) == []


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_telephone_nothing_scrolls_sideways(browser, page, dark) -> None:
    browser.open(page, width=_TELEPHONE, height=800, dark=dark)
    _click(browser, "button.name")
    widths = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1] == _TELEPHONE
    # Wide tables scroll inside themselves, so nothing else may reach over the edge.
    outside = browser.run(
        """return [...document.querySelectorAll("body *")].filter((e) =>
            !e.closest(".scroll") && !e.closest("svg") &&
            e.getBoundingClientRect().right > window.innerWidth + 1).map((e) => e.outerHTML)"""
    )
    assert outside == []
    assert _complaints(browser) == []


_CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => {
    v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(element);
  if (!own || style.visibility === "hidden" || !element.getClientRects().length) continue;
  const [a, b] = [light(parse(style.color)), light(ground(element))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 90)}`);
}
return found;
"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_stands_out_from_its_ground(browser, page, dark) -> None:
    """Contrast of at least 4.5, what the Web Content Accessibility Guidelines ask of text."""
    browser.open(page, dark=dark)
    _click(browser, "button.name")
    browser.run("for (const e of document.querySelectorAll('details')) e.open = true")
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (not dark)
    assert browser.run(_CONTRAST) == []
