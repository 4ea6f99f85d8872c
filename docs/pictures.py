"""Makes the pictures of the documentation: ``python docs/pictures.py [NAME ...]``.

Drawn with Matplotlib, or taken from a browser (Chromium and its driver) that opens a report and the
page of the server. Without names all pictures are made.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.tri import Triangulation

import plackett as pk

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "_static" / "pictures"
PLACKETT = (sys.executable, "-c", "from plackett.cli import main; main()")
BLUE, ORANGE, GREEN, GRAY = "#3567a8", "#d97a26", "#3d8a58", "#6b7280"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, GRAY]),
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "plackett",
    "figure.facecolor": "white",
}


def save(figure: Any, name: str) -> None:
    """Write a figure as SVG without a date, so that the same code gives the same file."""
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def smoothing() -> None:
    """NDCG against the score of one document: a staircase, and smooth under Gumbel noise."""
    labels = np.array([2.0, 1.0, 0.0, 0.0], dtype=np.float32)
    others = np.array([0.6, -0.4, -1.6])
    moving = np.linspace(-4, 4, 401)
    ndcg = pk.metric("ndcg")

    def mean_ndcg(beta: float, samples: int = 4000) -> np.ndarray[Any, Any]:
        uniform = np.random.default_rng(0).uniform(size=(samples, 4))
        noise = -beta * np.log(-np.log(uniform))
        means = []
        for x in moving:
            scores = np.array([x, *others]) + noise
            offsets = np.arange(0, scores.size + 1, 4)
            means.append(ndcg(scores.ravel(), np.tile(labels, samples), offsets).mean())
        return np.array(means)

    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.plot(moving, mean_ndcg(0.0, 1), color=GRAY, linewidth=1.5, label="NDCG (no noise)")
    for beta, color in ((0.25, BLUE), (1.0, ORANGE)):
        axes.plot(moving, mean_ndcg(beta), color=color, linewidth=2, label=f"expected NDCG, β = {beta:g}")
    for score, name in zip(others, ("label 1", "label 0", "label 0"), strict=True):
        axes.axvline(score, color="0.8", linewidth=0.8, zorder=0)
        axes.text(score, 0.575, f" {name}", color=GRAY, fontsize=8, ha="left", va="bottom")
    axes.set(
        xlabel="score of the document with label 2 (gray lines: scores of the other documents)",
        ylabel="NDCG of the list",
        ylim=(0.57, 1.02),
        xlim=(-4, 4),
    )
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.08))
    save(figure, "smoothing")


def concrete() -> None:
    """Density of Concrete distributions on the simplex (Bruch et al. 2020, Figure 1)."""
    n = 120
    grid = np.array([(i, j, n - i - j) for i in range(1, n) for j in range(1, n - i)], dtype=float) / n
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    points = grid @ corners
    triangles = Triangulation(points[:, 0], points[:, 1])
    figure, panels = plt.subplots(1, 3, figsize=(8, 2.45), layout="constrained")
    cases = [((1.0, 1.0, 1.0), 1.0), ((2.0, 1.0, 0.5), 1.0), ((2.0, 1.0, 0.5), 0.5)]
    for axes, (alpha, beta) in zip(panels, cases, strict=True):
        # softmax of log a + Gumbel(0, beta) has the density of a Concrete distribution of
        # temperature 1/beta with parameters a^(1/beta).
        rate, weight = 1.0 / beta, np.array(alpha) ** (1.0 / beta)
        terms = weight * grid ** (-rate)
        log_density = np.log(terms).sum(axis=1) - np.log(grid).sum(axis=1) - 3 * np.log(terms.sum(axis=1))
        density = np.exp(log_density - np.quantile(log_density, 0.95)).clip(max=1.0)
        axes.tripcolor(triangles, density, shading="gouraud", cmap="viridis", rasterized=True)
        axes.plot(*np.vstack([corners, corners[:1]]).T, color="0.3", linewidth=0.8)
        for place, name, (dx, dy) in zip(corners, "123", ((-0.06, -0.03), (0.06, -0.03), (0.0, 0.06)), strict=True):
            axes.text(place[0] + dx, place[1] + dy, f"doc {name}", ha="center", va="center", fontsize=8)
        axes.set_title(f"α = ({', '.join(f'{a:g}' for a in alpha)}),  β = {beta:g}", loc="center", fontsize=9)
        axes.set(aspect="equal", xlim=(-0.15, 1.15), ylim=(-0.1, 0.97))
        axes.axis("off")
    save(figure, "concrete")


def bound() -> None:
    """XE-NDCG of one list against the score of a document: a convex bound on minus log NDCG."""
    labels = np.array([2.0, 1.0, 0.0, 0.0], dtype=np.float32)
    others = np.array([0.6, -0.4, -1.6])
    moving = np.linspace(-4, 4, 401)
    scores = np.array([[x, *others] for x in moving]).ravel()
    labels, offsets = np.tile(labels, len(moving)), np.arange(0, scores.size + 1, 4)
    ndcg = pk.metric("ndcg")(scores, labels, offsets)
    # The mean over gamma; one key for all lists, so that they share its draws.
    same = np.zeros(len(moving), dtype=np.uint64)
    draws = [pk.objective("xendcg", seed=seed).evaluate(scores, labels, offsets, keys=same) for seed in range(500)]
    loss = np.mean([derivatives.values for derivatives in draws], axis=0)
    assert np.all(loss >= -np.log(ndcg))
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.plot(moving, loss, color=BLUE, linewidth=2, label="XE-NDCG, mean over γ")
    axes.plot(moving, -np.log(ndcg), color=GRAY, linewidth=1.5, label="−log NDCG")
    axes.fill_between(moving, -np.log(ndcg), loss, color=BLUE, alpha=0.07, linewidth=0)
    for score in others:
        axes.axvline(score, color="0.8", linewidth=0.8, zorder=0)
    axes.set(
        xlabel="score of the document with label 2 (gray lines: scores of the other documents)",
        ylabel="loss of the list",
        ylim=(-0.05, 3.6),
        xlim=(-4, 4),
    )
    axes.legend(loc="upper right")
    save(figure, "bound")


def scorer() -> None:
    """A drawing of the bit-sliced scorer: one word answers a question for 64 documents."""
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    axes.axis("off")
    axes.set(xlim=(0, 16), ylim=(0, 7.2), aspect="equal")
    questions = ["A: bm25 > 3", "B: price > 20", "C: age > 7"]
    answers = ["01101001", "11000110", "00111010"]
    colors = [BLUE, ORANGE, GREEN]

    def bits(x: float, y: float, word: str, color: str) -> None:
        for i, bit in enumerate(word):
            axes.add_patch(
                Rectangle((x + 0.38 * i, y), 0.38, 0.5, facecolor=color if bit == "1" else "white", edgecolor="0.5")
            )
            shade = "white" if bit == "1" else "0.3"
            axes.text(x + 0.38 * i + 0.19, y + 0.25, bit, ha="center", va="center", fontsize=8, color=shade)

    def node(x: float, y: float, text: str, color: str) -> None:
        axes.text(
            *(x, y, text),
            ha="center",
            va="center",
            fontsize=8,
            color="white",
            bbox={"boxstyle": "round,pad=0.35", "facecolor": color, "edgecolor": "none"},
        )

    axes.text(0, 6.8, "1  The tree", weight="bold")
    places = [(2.2, 5.8), (1.0, 4.4), (3.5, 4.4)]
    for (x, y), text, color in zip(places, questions, colors, strict=True):
        node(x, y, text, color)
    for start, end in ((0, 1), (0, 2)):
        axes.plot(*zip(places[start], places[end], strict=True), color="0.6", linewidth=1, zorder=0)
    for leaf, x in enumerate((0.4, 1.6, 2.9, 4.1)):
        parent = places[1] if leaf < 2 else places[2]
        axes.plot([parent[0], x], [parent[1], 3.3], color="0.6", linewidth=1, zorder=0)
        axes.text(x, 3.1, f"leaf {leaf}", ha="center", fontsize=8)
        axes.text(x, 2.65, f"{leaf:02b}", ha="center", fontsize=8, color=GRAY, family="DejaVu Sans Mono")
    axes.text(0, 1.8, "left = 0, right = 1:", fontsize=8, color=GRAY)
    axes.text(0, 1.35, "the turns of a document spell", fontsize=8, color=GRAY)
    axes.text(0, 0.9, "the number of its leaf", fontsize=8, color=GRAY)

    axes.text(5.4, 6.8, "2  One word per question", weight="bold")
    axes.text(5.4, 6.2, "a bit for each of 64 documents (8 drawn)", fontsize=8, color=GRAY)
    for i, (text, word, color) in enumerate(zip(questions, answers, colors, strict=True)):
        y = 5.2 - 0.85 * i
        axes.text(7.2, y + 0.25, text, ha="right", va="center", fontsize=8)
        bits(7.4, y, word, color)
    axes.text(5.4, 2.5, "asked once, though many", fontsize=8, color=GRAY)
    axes.text(5.4, 2.05, "trees ask the same question", fontsize=8, color=GRAY)

    axes.text(11.6, 6.8, "3  Logic instead of branches", weight="bold")
    first, left, right = (int(word, 2) for word in answers)
    high = f"{first:08b}"
    low = f"{(~first & left | first & right) & 255:08b}"
    axes.text(11.6, 5.95, "high bit =", fontsize=8)
    node(13.75, 6.07, "A", BLUE)
    bits(11.9, 5.0, high, "0.35")
    axes.text(11.6, 4.3, "low bit = (not", fontsize=8)
    node(13.75, 4.42, "A", BLUE)
    axes.text(14.1, 4.3, "and", fontsize=8)
    node(15.15, 4.42, "B", ORANGE)
    axes.text(15.5, 4.3, ")", fontsize=8)
    axes.text(12.4, 3.65, "or (", fontsize=8)
    node(13.35, 3.77, "A", BLUE)
    axes.text(13.7, 3.65, "and", fontsize=8)
    node(14.75, 3.77, "C", GREEN)
    axes.text(15.1, 3.65, ")", fontsize=8)
    bits(11.9, 2.7, low, "0.35")
    axes.text(11.6, 1.95, "leaves of the eight documents", fontsize=8)
    for i in range(8):
        leaf = 2 * int(high[i]) + int(low[i])
        axes.text(12.09 + 0.38 * i, 1.45, str(leaf), ha="center", fontsize=9, weight="bold")
    for x in (4.55, 10.75):
        axes.add_patch(FancyArrowPatch((x, 4.4), (x + 0.6, 4.4), arrowstyle="-|>", mutation_scale=12, color="0.5"))
    save(figure, "scorer")


def curves() -> None:
    """Learning curves of a plain and of a stochastic objective."""
    data = pk.synthetic("letor", n_lists=300, seed=1)
    train, validation = pk.split(data, (0.6, 0.4), seed=0)
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for name, color in (("lambdamart", GRAY), ("e-lambdamart", BLUE), ("e-lambdaloss-mart", ORANGE)):
        ranker = pk.recipe(name, trees=150, patience=150).fit(train, validation, metric="ndcg@10")
        values = ranker.curves_["validation"]["ndcg@10"]
        axes.plot(np.arange(1, len(values) + 1), values, color=color, linewidth=1.2, label=name)
        axes.plot(ranker.best_step_, values[ranker.best_step_ - 1], "o", color=color, markersize=5)
    axes.set(xlabel="trees (dot: the step that the model keeps)", ylabel="NDCG@10, validation lists")
    axes.legend(loc="lower right")
    save(figure, "curves")


def _shop(folder: Path) -> tuple[Path, Path]:
    """A comparison with its report, and a saved model."""
    data = pk.synthetic("web", n_lists=240, seed=0)
    train, test = pk.split(data, (0.75, 0.25), seed=0)
    pk.write(data, folder / "web.parquet")
    pk.write(test, folder / "test.parquet")
    models = "lightgbm-lambdarank,e-lambdaloss-mart,xendcg-mart,listnet-linear"
    run = [*PLACKETT, "compare", "web.parquet", "--models", models, "--protocol", "folds:3", "--set", "trees=150"]
    subprocess.run([*run, "--out", "report"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    pk.recipe("e-lambdaloss-mart", trees=80).fit(train, metric="ndcg@10").save(folder / "web.plackett")
    return folder / "report" / "report.html", folder / "web.plackett"


def _shrink(picture: bytes, path: Path, colors: int = 128) -> None:
    """Write a screenshot with few colors, so that the file is small."""
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(colors, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)


def _wait_for(url: str) -> None:
    """Wait until a server answers."""
    for _ in range(120):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(url)


def screenshots() -> None:
    """The report of the quickstart, queries and curves of another one, and the page of the server."""
    sys.path.insert(0, str(HERE.parent / "tests" / "helpers"))
    from webdriver import Browser

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([*PLACKETT, "quickstart"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        report, model = _shop(folder)
        serve = [*PLACKETT, "serve", str(model), "--port", "8765"]
        server = subprocess.Popen([*serve, "--examples", str(folder / "test.parquet"), "--quiet"], cwd=folder)
        browser = Browser(folder / "profile")
        try:
            browser.devtools("Emulation.setScrollbarsHidden", hidden=True)
            browser.open(folder / "quickstart" / "report.html", width=1100, height=840)
            time.sleep(3)
            _shrink(browser.screenshot(), FOLDER / "report.png")
            browser.open(report, width=1100, height=840)
            time.sleep(3)
            browser.run("document.querySelector('button.name').click()")
            browser.run("document.querySelector('#queries-section').scrollIntoView()")
            time.sleep(2)
            _shrink(browser.screenshot(), FOLDER / "queries.png")
            browser.run("document.querySelector('#curves').scrollIntoView()")
            time.sleep(2)
            _shrink(browser.screenshot(), FOLDER / "report-curves.png")
            _wait_for("http://127.0.0.1:8765/ready")
            browser.devtools("Page.navigate", url="http://127.0.0.1:8765/")
            time.sleep(3)
            browser.run("document.querySelector('#examples button').click()")
            time.sleep(1)
            browser.run("document.querySelector('#rank').click()")
            time.sleep(3)
            _shrink(browser.screenshot(), FOLDER / "serve.png")
        finally:
            browser.close()
            server.terminate()
            server.wait()


PICTURES: dict[str, Callable[[], None]] = {
    function.__name__: function for function in (smoothing, concrete, bound, scorer, curves, screenshots)
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name]()
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.name:<20} {path.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    main()
