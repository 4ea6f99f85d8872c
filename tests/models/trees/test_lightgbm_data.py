"""Memory that LightGBM could not have is told beforehand, and nothing else is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import plackett as pk
from plackett.base.memory import Limit
from plackett.models.trees.lightgbm_data import check_memory_for_bins, min_bin_bytes

SAMPLED, DOCS = 1000, 1_000_000


def values(kind: str) -> np.ndarray:
    """Values of a feature in the sample that are not zero."""
    rng = np.random.default_rng(0)
    return {
        "many": rng.normal(size=SAMPLED),
        "few": rng.integers(1, 10, SAMPLED).astype(float),
        "rare": rng.normal(size=SAMPLED // 4),
        "usual": np.where(rng.uniform(size=SAMPLED) < 0.8, 5.0, rng.normal(size=SAMPLED)),
        "missing": np.where(rng.uniform(size=SAMPLED) < 0.8, np.nan, rng.normal(size=SAMPLED)),
        "none": np.empty(0),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "expected"), [("many", 1.0), ("few", 0.5), ("rare", 0), ("usual", 0), ("missing", 0), ("none", 0)]
)
def test_only_dense_features_count(kind, expected) -> None:
    assert sum(min_bin_bytes([values(kind)], SAMPLED, DOCS, {})) == expected * DOCS


@pytest.mark.parametrize("name", ["max_bin", "max_bins", "min_data_in_bin"])
def test_coarser_bins_take_half_a_byte_at_least(name) -> None:
    assert sum(min_bin_bytes([values("many")], SAMPLED, DOCS, {name: 15})) == DOCS // 2


def test_bins_beyond_a_limit_raise_with_both_numbers(monkeypatch) -> None:
    monkeypatch.setattr("plackett.models.trees.lightgbm_data.memory_limits", lambda: [Limit("a", 10**6, 10**5)])
    sample = [values("many"), values("few")]
    check_memory_for_bins(sample, SAMPLED, 600_000, {})
    expected = r"at least 0\.01 GB more .* 7,000,000 documents x 2 features.*a: 0\.00 GB"
    with pytest.raises(pk.DataError, match=expected):
        check_memory_for_bins(sample, SAMPLED, 7_000_000, {})


def test_a_fit_from_disk_raises_before_lightgbm_starts(tmp_path, monkeypatch) -> None:
    pk.write(pk.synthetic("letor", n_lists=20), tmp_path / "a.pkdata")
    monkeypatch.setattr("plackett.data.large_arrays.LARGE_BYTES", 0)
    data = pk.read(tmp_path / "a.pkdata")
    ranker = pk.TreeRanker(trees=2, leaves=4)
    ranker.clone().fit(data)
    monkeypatch.setattr("plackett.models.trees.lightgbm_data.memory_limits", lambda: [Limit("ulimit -d", 99, 0)])
    with pytest.raises(pk.DataError, match=r"coarser bins .*or train on a part of the lists"):
        ranker.clone().fit(data)


SCRIPT = """
import resource, sys
import numpy as np
from plackett.base.errors import DataError
from plackett.base.memory import memory_limits
from plackett.models.trees.lightgbm_data import check_memory_for_bins
sample = [np.random.default_rng(0).normal(size=1000)] * 10
check_memory_for_bins(sample, 1000, 10**9, {})
assert not memory_limits()
text = open("/proc/self/status").read()
taken = 1024 * int(text.split("VmData:")[1].split()[0])
resource.setrlimit(resource.RLIMIT_DATA, (taken + 300 * 10**6,) * 2)
check_memory_for_bins(sample, 1000, 10**7, {})
try:
    check_memory_for_bins(sample, 1000, 4 * 10**7, {})
except DataError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_real_limit_is_detected() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode and "assert not memory_limits()" in done.stderr:
        pytest.skip("these tests run under a limit already")
    assert done.returncode == 0, done.stderr
    assert "LightGBM needs at least 0.40 GB more memory" in done.stdout
    assert "ulimit -d" in done.stdout
