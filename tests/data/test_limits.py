"""What a small or an endless input may ask for, in every reader."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data import files as limits
from plackett.data.clicks import read_clicks, read_propensities
from plackett.data.trec import read_qrels


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "name", ["data.txt", "data.csv", "data.parquet", "clicks.csv", "qrels", "propensities.json", "model"]
)
def test_pipes_are_refused_by_every_reader(name: str, tmp_path: Path) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    readers = {
        "clicks.csv": read_clicks,
        "qrels": read_qrels,
        "propensities.json": read_propensities,
        "model": pk.import_model,
    }
    with pytest.raises(DataError, match="is a pipe, which may never end"):
        readers.get(name, pk.read)(pipe)


def test_devices_are_refused(tmp_path: Path) -> None:
    device = tmp_path / "data.txt"
    device.symlink_to("/dev/zero")
    with pytest.raises(DataError, match="is a device, which may never end"):
        pk.read(device)


@pytest.mark.parametrize("name", ["data.csv.gz", "clicks.csv.gz", "qrels.gz"])
def test_archives_out_of_proportion_are_refused_by_every_reader(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_FREE_BYTES", 1000)
    path = tmp_path / name
    text = {
        "data.csv.gz": b"query_id,label,f1\n" + b"1,1,1\n" * 500_000,
        "clicks.csv.gz": b"impression,document,position,click\n" + b"1,1,1,1\n" * 500_000,
        "qrels.gz": b"1 0 a 1\n" + b"\n" * 4_000_000,
    }[name]
    path.write_bytes(gzip.compress(text))
    readers = {"clicks.csv.gz": read_clicks, "qrels.gz": read_qrels}
    with pytest.raises(DataError, match="of compressed data hold more than"):
        readers.get(name, pk.read)(path)
    if name == "data.csv.gz":
        assert pk.read(path, max_expansion=2000).n_docs == 500_000


def test_a_table_that_memory_cannot_hold_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.parquet"
    ids = np.repeat(np.arange(10), 100)
    pq.write_table(pa.table({"query_id": ids, "label": ids, "a": ids, "b": ids}), path)
    monkeypatch.setattr(limits, "available_memory", lambda: 7999)
    with pytest.raises(DataError, match=r"1,000 rows of 2 features would take .*stream=True"):
        pk.read(path)


def test_limits_must_be_positive(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(b"1 qid:1 1:1\n")
    with pytest.raises(UsageError, match="max_features= must be positive, got 0"):
        pk.read(path, max_features=0)


def _run(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "plackett", *arguments]
    return subprocess.run(command, input=text, capture_output=True, timeout=120, check=False)


def test_the_command_line_reads_standard_input_and_refuses_a_wide_bomb() -> None:
    result = _run("describe", "-", "--json", text=b"1 qid:1 1:1 2:1\n0 qid:1 1:2\n")
    assert result.returncode == 0, result.stderr
    assert b'"documents": 2' in result.stdout or b'"n_docs": 2' in result.stdout
    result = _run("describe", "-", text=b"1 qid:1 1:1 1000000000:1\n")
    assert result.returncode == 1
    assert b"--max-features 1000000000" in result.stderr.replace(b"\n", b" ")
