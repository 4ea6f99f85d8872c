"""The report in a real browser: its script runs, and it fits a telephone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from small_systems import FeatureRanker, small_data

from plackett.experiments.comparing import compare
from plackett.experiments.reporting import write_files

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def compared():
    systems = {"base": FeatureRanker(feature=3), "other": FeatureRanker(feature=0)}
    return compare(small_data(), systems, protocol="folds:3", metrics="ndcg@5")


@pytest.fixture(scope="module")
def page(compared, tmp_path_factory) -> Path:
    return write_files(compared, tmp_path_factory.mktemp("report")).report


def _open(page: Path, script: str, *, width: int = 1000) -> tuple[str, str]:
    """The page's elements after a script was run in it, and what the browser complained of."""
    if _CHROMIUM is None:
        pytest.skip("there is no browser here (Debian's package: chromium)")
    profile = page.with_name("profile")
    scripted = page.with_name("scripted.html")
    text = page.read_text().replace("</body>", f"<script>{script}</script></body>")
    scripted.write_text(text)
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --disable-dev-shm-usage --enable-logging=stderr "
        f"--dump-dom --virtual-time-budget=5000 --window-size={width},900"
    )
    command = [_CHROMIUM, *options.split(), f"--user-data-dir={profile}", scripted.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
    complaints = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    return run.stdout, "\n".join(complaints)


def _differences(elements: str) -> list[float]:
    found = re.findall(r'<td(?: class="(?:better|worse)")?>([-+−.\d]+)<span', elements)
    return [float(text.replace("−", "-")) for text in found]


def test_queries_are_listed_by_their_difference_and_one_opens_at_a_click(page, compared) -> None:
    elements, complaints = _open(page, "document.querySelector('button.name').click()")
    assert complaints == ""
    found = _differences(elements)
    values = compared.gathered.values
    d = values["other"]["ndcg@5"] - values["base"]["ndcg@5"]
    expected = np.sort(d[np.isfinite(d)])[::-1][:25]
    assert found == pytest.approx(expected.tolist(), abs=6e-5)
    assert elements.count('<tr class="look">') == 1
    assert elements.count("<ol>") == 2


def test_queries_are_searched_sorted_and_filtered(page) -> None:
    script = """
    const set = (id, value, kind) => {
      document.getElementById(id).value = value;
      document.getElementById(id).dispatchEvent(new Event(kind));
    };
    set("kind", "lost", "change");
    document.querySelector("th.difference button").click();
    set("search", "1", "input");
    """
    elements, complaints = _open(page, script)
    assert complaints == ""
    found = _differences(elements)
    assert found
    assert found == sorted(found)
    assert max(found) < 0
    names = re.findall(r'<button class="name"[^>]*>(.*?)</button>', elements)
    assert names
    assert all("1" in name for name in names)


def test_the_page_is_not_wider_than_a_telephone(page) -> None:
    script = """
    document.querySelector("button.name").click();
    document.title = `${document.documentElement.scrollWidth} of ${window.innerWidth}`;
    """
    elements, complaints = _open(page, script, width=500)
    assert complaints == ""
    (title,) = re.findall(r"<title>(\d+) of (\d+)</title>", elements)
    assert int(title[0]) <= int(title[1]) <= 500
