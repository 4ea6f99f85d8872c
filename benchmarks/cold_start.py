"""What compilation costs: processor seconds of each command with an empty and a full kernel cache.

    python benchmarks/cold_start.py --data Fold1 --kernels 20

Each command runs in a new process, first with an empty cache directory and then again with what the
first run left there. ``compiling`` is the time inside Numba's compiler as its event log has
it; a kernel's own seconds leave out the functions it calls, which are counted by themselves.
Imports stand beside the commands for scale. Without ``--data`` (a folder with LETOR's
``train.txt``, ``vali.txt`` and ``test.txt``) a synthetic set of 100 lists is used.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

PORT = 8931

# Python imports this module when it starts: in each process of a command, workers included.
SITECUSTOMIZE = '''
import json, os, threading, time
from numba.core import event

class Log(event.Listener):
    """Write a line for each compiled function: its name, own seconds, and those inside LLVM."""

    def __init__(self):
        self.local = threading.local()
        self.file = open(os.path.join(os.environ["COLD_START_LOG"], str(os.getpid())), "a", 1)

    def stack(self):
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        return self.local.stack

    def on_start(self, event):
        self.stack().append([event.kind, time.thread_time(), 0.0, 0.0])

    def on_end(self, event):
        stack = self.stack()
        kind, start, nested, llvm = stack.pop()
        taken = time.thread_time() - start
        inside_llvm = any(frame[0] == "numba:llvm_lock" for frame in stack)
        if kind == "numba:llvm_lock" and not inside_llvm:
            for frame in reversed(stack):
                if frame[0] == "numba:compile":
                    frame[3] += taken
                    break
        if kind == "numba:compile":
            for frame in reversed(stack):
                if frame[0] == "numba:compile":
                    frame[2] += taken
                    break
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.removeprefix('plackett.')}.{function.__name__}"
            self.file.write(json.dumps([name, taken - nested, llvm]) + "\\n")

log = Log()
event.register("numba:compile", log)
event.register("numba:llvm_lock", log)
'''


@dataclass
class Kernel:
    """One compiled function: all seconds without those of functions it calls, and those in LLVM."""

    name: str
    seconds: float
    llvm: float


@dataclass
class Run:
    """One run of a command."""

    seconds: float
    processor: float
    kernels: list[Kernel] = field(default_factory=list)


def environment(folder: Path, cache: Path, *, logged: bool) -> dict[str, str]:
    log = folder / "log"
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir()
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITECUSTOMIZE)
    paths = [str(site) if logged else None, os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(filter(None, paths))
    more = {"PYTHONPATH": path, "COLD_START_LOG": str(log), "NUMBA_CACHE_DIR": str(cache)}
    return {"OMP_WAIT_POLICY": "passive", **os.environ, **more}


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments: list[str], folder: Path, cache: Path) -> Run:
    """Run Python with these arguments and collect what it compiled."""
    compiles = "train" in arguments or len(arguments) > 3  # others would import Numba for the log
    variables = environment(folder, cache, logged=compiles)
    before, start = children_seconds(), time.perf_counter()
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT
        )
        if "serve" in arguments:
            send_one_list(process, folder / "trees")
        code = process.wait()
    if code not in (0, -signal.SIGTERM):
        raise SystemExit(f"{' '.join(arguments)} failed:\n{(folder / 'output').read_text()}")
    result = Run(time.perf_counter() - start, children_seconds() - before)
    for file in (folder / "log").iterdir():
        for line in file.read_text().splitlines():
            name, own, llvm = json.loads(line)
            result.kernels.append(Kernel(name, own, llvm))
    return result


def send_one_list(process: subprocess.Popen[bytes], model: Path) -> None:
    """Wait until the server answers, send it one list, and stop it."""
    n_features = json.loads((model / "manifest.json").read_text())["features"]["count"]
    body = json.dumps({"documents": [[0.1 * i] * n_features for i in range(10)]}).encode()
    address = f"http://127.0.0.1:{PORT}/rank"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    while process.poll() is None:
        try:
            urllib.request.urlopen(request, timeout=120).read()
            break
        except urllib.error.HTTPError as error:
            raise SystemExit(f"serve: {error} {error.read()!r}") from error
        except OSError:
            time.sleep(0.1)
    process.send_signal(signal.SIGTERM)


def commands(data: Path) -> dict[str, list[str]]:
    """Command lines by name; the models that the first ones train serve the others."""
    test = str(data / "test.txt")
    lines = {
        "import plackett": "-c",
        "--help": "--help",
        "train lambdamart": "train DATA --model lambdamart --set trees=20 --out trees",
        "train listnet-linear": "train DATA --model listnet-linear --out linear",
        "train urank": "train DATA --model urank --set epochs=2 --out net",
        "rank": "rank trees TEST --out scores.txt",
        "evaluate": "evaluate trees TEST",
        "compare": "compare DATA --models lambdamart,xendcg-mart --set trees=20 --out comparison",
        "serve": f"serve trees --port {PORT}",
    }
    words = {"DATA": str(data), "TEST": test}
    split = {
        name: ["-m", "plackett", *(words.get(word, word) for word in line.split())] for name, line in lines.items()
    }
    return split | {"import plackett": ["-c", "import plackett"]}


def synthetic_data(folder: Path) -> Path:
    import plackett as pk

    for name, seed in (("train", 0), ("vali", 1), ("test", 2)):
        pk.write(pk.synthetic("web", n_lists=100, seed=seed), folder / f"{name}.txt")
    return folder


def measure(data: Path, folder: Path, chosen: set[str]) -> dict[str, tuple[Run, Run]]:
    """Cold and warm run of each command, in that order."""
    results = {}
    for name, arguments in commands(data).items():
        if chosen and not chosen & {name, name.split()[0]}:
            continue
        cache = Path(tempfile.mkdtemp(dir=folder))
        runs = []
        for _ in range(2):
            shutil.rmtree(folder / "comparison", ignore_errors=True)
            runs.append(run(arguments, folder, cache))
        results[name] = (runs[0], runs[1])
    return results


def show(results: dict[str, tuple[Run, Run]], n_kernels: int) -> None:
    console = Console()
    numbers = ("cold", "warm", "more", "compiling", "in LLVM", "kernels", "seconds cold", "warm")
    table = Table("command", *numbers, title="processor seconds")
    for name, (cold, warm) in results.items():
        seconds = (cold.processor, warm.processor, cold.processor - warm.processor)
        compiling = sum(k.seconds for k in cold.kernels), sum(k.llvm for k in cold.kernels)
        cells = [f"{value:.2f}" for value in (*seconds, *compiling)]
        clock = f"{cold.seconds:.1f}", f"{warm.seconds:.1f}"
        table.add_row(name, *cells, str(len(cold.kernels)), *clock)
    console.print(table)
    for name, (cold, warm) in results.items():
        if not n_kernels or not cold.kernels:
            continue
        table = Table("kernel", "compiled", "seconds", "in LLVM", title=name)
        kernels: dict[str, list[Kernel]] = defaultdict(list)
        for kernel in cold.kernels:
            kernels[kernel.name].append(kernel)
        ranked = sorted(kernels.items(), key=lambda item: -sum(k.seconds for k in item[1]))
        for kernel_name, compiled in ranked[:n_kernels]:
            own, llvm = sum(k.seconds for k in compiled), sum(k.llvm for k in compiled)
            table.add_row(kernel_name, str(len(compiled)), f"{own:.2f}", f"{llvm:.2f}")
        console.print(table)
        if warm.kernels:
            again = sorted({kernel.name for kernel in warm.kernels})
            console.print(f"{name} compiles again when warm: {', '.join(again)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of LETOR's three files")
    parser.add_argument("--only", nargs="*", default=[], help="commands, by name or first word")
    parser.add_argument("--kernels", type=int, default=12, help="rows of the tables of kernels")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = synthetic_data(folder) if options.data is None else options.data.resolve()
        results = measure(data, folder, set(options.only))
    if options.json:
        record = {name: [asdict(one) for one in runs] for name, runs in results.items()}
        print(json.dumps(record, indent=1))
    else:
        show(results, options.kernels)


if __name__ == "__main__":
    main()
