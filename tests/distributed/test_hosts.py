"""Two hosts with a network between them: namespaces of this machine, made by the test itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ray_processes import QUIET, end, start, wait_for

pytestmark = pytest.mark.timeout(300)

HEAD, WORKER, PORT = "10.203.77.1", "10.203.77.2", 6399
ENVIRONMENT = os.environ | QUIET
ENVIRONMENT.pop("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", None)  # nothing here is on the loopback

SCRIPT = """
import json, sys
import plackett as pk

def sent():
    for line in open("/proc/net/dev"):
        if ":" in line and line.split(":")[0].strip().startswith("pk"):
            return int(line.split(":")[1].split()[8])

pk.write(pk.synthetic("letor", n_lists=40, seed=1), sys.argv[2])
data = pk.read(sys.argv[2])  # which both hosts open for themselves
settings = dict(trees=6, leaves=5, seed=3, threads=1,
                lightgbm={"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0})
one = pk.TreeRanker(objective="lambdarank", **settings).fit(data).predict(data)
before, texts = sent(), []
two = pk.TreeRanker(objective="lambdarank", **settings).fit(
    data, cluster=sys.argv[1], progress=lambda text, *_: texts.append(text)).predict(data)
print(json.dumps({"difference": float(abs(one - two).max()), "bytes": sent() - before,
                  "hosts": texts[0]}))
"""

TASKS = """
import json, sys, time
from dataclasses import dataclass
from pathlib import Path
import ray
import plackett as pk
from plackett.experiments import tune

@dataclass
class Noting(pk.LinearRanker):
    notes: str = ""

    def _fit(self, train, validation, run):
        if self.notes:
            with open(self.notes, "a") as file:
                file.write(ray.util.get_node_ip_address() + "\\n")
            time.sleep(2)  # so long that the other host has the next one
        super()._fit(train, validation, run)

folder = Path(sys.argv[2])
data = pk.synthetic("letor", n_lists=30, seed=1)
pk.TreeRanker(trees=1).fit(data, cluster=sys.argv[1])  # needs both hosts, and waits for them
found = {}
for cluster in (None, sys.argv[1]):
    def noting(name):
        return "" if cluster is None else str(folder / name)
    settings = dict(objective="listnet", C=1.0, transforms=("standard",))
    crossfit = pk.CrossFit(Noting(**settings, notes=noting("members")), folds=2)
    scores = crossfit.fit(data, cluster=cluster).predict(data)
    tuned = tune(data, Noting(**settings, notes=noting("trials")), trials=3, refit=False,
                 space={"C": "0.01..10:log"}, pruner="none", cluster=cluster,
                 store=folder / f"{cluster is None}.db")
    values = [trial.value for trial in tuned.trials]
    found[str(cluster is None)] = [list(scores), values, tuned.recipe_value]
hosts = {name: sorted(set((folder / name).read_text().split())) for name in ("members", "trials")}
print(json.dumps({"same": found["True"] == found["False"], "hosts": hosts}))
"""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[str, str]]:
    """Two namespaces with a pair of veth devices between them."""
    pytest.importorskip("ray", reason="needs the extra distributed")
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("needs iproute2 (Debian: apt-get install iproute2)")
    names = (f"pka{os.getpid()}", f"pkb{os.getpid()}")
    try:
        for name in names:
            _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no leave to make network namespaces: {error.stderr.strip()}")
    try:
        _ip("link", "add", "pk0", "netns", names[0], "type", "veth", "peer", "pk1", "netns", names[1])
        for name, device, address in zip(names, ("pk0", "pk1"), (HEAD, WORKER), strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", device)
            _ip("-n", name, "link", "set", device, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no leave to connect network namespaces: {error.stderr.strip()}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, timeout=20)


@pytest.fixture(scope="module")
def first_host(hosts) -> Iterator[tuple[str, ...]]:
    """The words that run a command on the first host; Ray runs on both."""
    first, second = (("ip", "netns", "exec", name) for name in hosts)
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    common = ("--num-cpus=1", "--object-store-memory=100000000", "--include-dashboard=false")
    ports = (f"--node-ip-address={HEAD}", f"--port={PORT}", f"--temp-dir={folder}")
    processes = [start("--head", *ports, *common, prefix=first, environment=ENVIRONMENT)]
    try:
        wait_for(lambda: _listens(first), 60)
        address = (f"--address={HEAD}:{PORT}", f"--node-ip-address={WORKER}")
        processes.append(start(*address, *common[:2], prefix=second, environment=ENVIRONMENT))
        yield first
    finally:
        for process in reversed(processes):
            end(process)
        shutil.rmtree(folder, ignore_errors=True)


def test_workers_on_two_hosts_grow_the_trees_of_one_process(first_host, tmp_path) -> None:
    actual = _run(first_host, SCRIPT, "shared=1", tmp_path / "data.pkdata")
    assert actual["difference"] < 1e-9
    assert HEAD in actual["hosts"]
    assert WORKER in actual["hosts"]
    assert actual["bytes"] > 10_000  # histograms have gone over the wire


def test_trials_and_members_run_on_two_hosts(first_host, tmp_path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    actual = _run(first_host, TASKS, "shared=0", tmp_path)
    assert actual["hosts"] == {"members": [HEAD, WORKER], "trials": [HEAD, WORKER]}
    assert actual["same"]


def _run(host: tuple[str, ...], script: str, settings: str, place: Path) -> Any:
    """What a script on a host prints."""
    cluster = f"{HEAD}:{PORT}?workers=2&start_seconds=100&{settings}"
    run = subprocess.run(
        [*host, sys.executable, "-c", script, cluster, str(place)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=220,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def _listens(prefix: tuple[str, ...]) -> bool:
    code = f"import socket; socket.create_connection(({HEAD!r}, {PORT}), 1)"
    run = subprocess.run([*prefix, sys.executable, "-c", code], check=False, capture_output=True, timeout=30)
    return run.returncode == 0
