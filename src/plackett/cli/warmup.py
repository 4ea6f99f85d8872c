"""``plackett warmup``: compile the kernels ahead of time, for containers and automatic tests.

Kernels are compiled by using them: worker processes run small commands and objectives on synthetic
data, and leave the machine code in the cache that all later processes read.
"""

import io
import os
import tempfile
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer

from plackett.base.errors import UsageError
from plackett.cli.console import print_facts, step_progress
from plackett.cli.options import Json

_COMMANDS = {
    "data": (
        "describe DATA/train.txt",
        "describe DATA/rare.txt",
        "convert DATA/train.txt data.pkdata",
        "convert DATA/train.txt data.parquet",
        "convert data.parquet data.txt",
    ),
    "trees": (
        "train DATA --model lambdamart --set trees=2 --out trees",
        "rank trees DATA/test.txt --out scores.txt",
        "evaluate trees DATA/test.txt --baseline scores.txt",
        "compare DATA --models lambdamart,xendcg-mart --set trees=2 --out comparison",
    ),
    "default": ("train DATA --set trees=2 --out model",),
    "linear": ("train DATA --model listnet-linear --out model", "rank model DATA/test.txt"),
    "hinges": ("train DATA --model ranksvm --out model",),
    "cutting planes": ("train DATA --model svmmap --out model",),
    "stumps": ("train DATA --model rankboost --out model", "rank model DATA/test.txt"),
    "net": ("train DATA --model urank --set epochs=1 --out model", "rank model DATA/test.txt"),
}
_NEEDS = {"net": "torch", "scanner": "msgspec"}
_LISTS = {"train": 40, "vali": 10, "test": 10}


def warmup(
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes that compile.  \\[default: one per processor]")
    ] = None,
    json: Json = False,
) -> None:
    """Compile all kernels ahead of time, so that later commands need not compile them."""
    from plackett.base.kernel_cache import cache_folder, is_writable

    folder = cache_folder()
    if folder is None or not is_writable(folder):
        reason = "there is no folder for" if folder is None else f"{folder} cannot be written:"
        raise UsageError(f"{reason} the cache of compiled kernels; set NUMBA_CACHE_DIR to a writable folder.")
    start = time.perf_counter()
    names = list_tasks()
    with tempfile.TemporaryDirectory() as data:
        kernels = run_warmup_task("prepare", data)
        workers = min(jobs or os.cpu_count() or 1, len(names))
        with step_progress() as progress, ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            pending = [pool.submit(run_warmup_task, name, data) for name in names]
            for done, future in enumerate(as_completed(pending)):
                kernels += future.result()
                progress("compiling kernels", done + 1, len(pending))
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    seconds = time.perf_counter() - start
    facts = {"kernels": kernels, "seconds": seconds, "folder": str(folder), "megabytes": size}
    text = f"compiled {kernels} kernels in {seconds:.0f} s; {folder} has {size:.0f} MB."
    print_facts(facts, text, as_json=json)


def list_tasks() -> list[str]:
    """Names of the tasks that can run here, the slowest first."""
    from plackett.objectives import OBJECTIVES

    commands = [*_COMMANDS, "scanner"]
    installed = [name for name in commands if name not in _NEEDS or find_spec(_NEEDS[name])]
    return installed + [f"objective {kind.name}" for kind in OBJECTIVES]


def run_warmup_task(name: str, data: str) -> int:
    """Run one task in this process; returns how many kernels it compiled."""
    from plackett.base.compilation_notice import set_notice
    from plackett.data import canonical
    from plackett.metrics import ranking

    ranking.FIRST_CALLS = canonical.SMALL = 0  # small data would not need these kernels
    counts: list[int] = []

    def count_kernel(count: int) -> AbstractContextManager[None]:
        counts.append(count)
        return nullcontext()

    set_notice(count_kernel)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        if name == "prepare":
            _write_data(Path(data))
        elif name == "scanner":
            _scan_request()
        elif name in _COMMANDS:
            _run_commands(_COMMANDS[name], data)
        else:
            _use_objective(name.removeprefix("objective "))
    return len(counts)


def _write_data(folder: Path) -> None:
    import plackett as pk

    for part, n_lists in _LISTS.items():
        pk.write(pk.synthetic("letor", n_lists=n_lists, seed=n_lists), folder / f"{part}.txt")
    # Exponents and non-ASCII letters, which the kernel for most files leaves to another kernel.
    lines = (f"{i % 3} qid:é{i // 50} 1:{i}e-3\n" for i in range(20_000))
    (folder / "rare.txt").write_text("".join(lines), "utf-8")
    test = pk.read(folder / "test.txt")
    pk.evaluate(test.labels, test, ["ndcg@1", "ndcg", "err@10", "map", "mrr", "precision@5"])


def _run_commands(lines: Iterable[str], data: str) -> None:
    from plackett.cli.app import app

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        try:
            for line in lines:
                app(line.replace("DATA", data).split(), standalone_mode=False)
        finally:
            os.chdir(before)


def _use_objective(name: str) -> None:
    from plackett.data.synthetic import synthetic
    from plackett.objectives import OBJECTIVES, Stochastic

    dataset = synthetic("letor", n_lists=10, seed=1)
    scores = dataset.labels.astype("float64")
    (kind,) = [kind for kind in OBJECTIVES if kind.name == name]
    for objective in (kind(), Stochastic(kind(), samples=2)):
        bound = objective.bind(dataset.labels, dataset.offsets, dataset.keys)
        bound.evaluate(scores, 0)
        bound.newton(scores, 0)
        bound.float32_gradient(scores, 0)


def _scan_request() -> None:
    from plackett.serving.server import Limits
    from plackett.serving.server.requests import FeatureNames, read_json

    read_json(b'{"documents": [[0.5]]}', FeatureNames(("first",)), Limits())
