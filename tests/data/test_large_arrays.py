"""Features on disk: told apart, walked through, and copied to disk again."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import plackett as pk
from plackett.data import large_arrays as on_disk
from plackett.data.columnar.reader import name_file_in_errors
from plackett.data.transforms import transform
from plackett.data.transforms.base import apply_in_blocks

TRANSFORMS = ("standard", "quantile", "impute", "log1p", "query-minmax")


@pytest.fixture
def mapped(tmp_path: Path) -> pk.Dataset:
    data = pk.synthetic("web", n_lists=30, seed=3)
    pk.write(data, tmp_path / "web.pkdata")
    return pk.read(tmp_path / "web.pkdata")


def test_only_mapped_features_beyond_a_size_are_large(mapped, monkeypatch) -> None:
    assert not on_disk.is_large(mapped.features)
    monkeypatch.setattr(on_disk, "LARGE_BYTES", 1000)
    assert on_disk.is_large(mapped.features)
    assert on_disk.is_large(mapped.features[5:])
    assert not on_disk.is_large(mapped.features[:1])
    assert not on_disk.is_large(mapped.features.copy())
    assert not on_disk.is_large(None)


@pytest.mark.usefixtures("_tiny_blocks")
def test_blocks_cover_all_rows_once(mapped) -> None:
    spans = list(on_disk.iter_blocks(mapped.features, multiple=4))
    assert len(spans) > 1
    assert all(span.start % 4 == 0 for span in spans)
    rows = np.concatenate([np.arange(span.start, span.stop) for span in spans])
    assert np.array_equal(rows, np.arange(mapped.n_docs))
    assert list(on_disk.iter_blocks(np.ones((5, 2)))) == [slice(0, 5)]


@pytest.mark.usefixtures("_tiny_blocks")
def test_scratch_files_have_no_name_and_keep_what_is_written(tmp_path) -> None:
    array = on_disk.scratch_array(tmp_path, (100, 3), np.float32)
    assert os.listdir(tmp_path) == []
    array[:] = np.arange(300).reshape(100, 3)
    on_disk.release_pages(array)
    assert array.sum() == 300 * 299 / 2
    assert on_disk.is_large(on_disk.allocate(array, (5, 5)))


def test_scratch_files_go_where_the_user_says(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(on_disk.SCRATCH_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(pk.DataError, match="PLACKETT_SCRATCH"):
        on_disk.scratch_array(tmp_path, (2, 2), np.float32)


def test_a_full_disk_is_reported_before_anything_is_written(tmp_path, monkeypatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(pk.DataError, match=r"a scratch file of 3\.7 GiB cannot be written: No space left"):
        on_disk.scratch_array(tmp_path, (10**9,), np.float32)
    assert os.listdir(tmp_path) == []


def test_a_limit_of_addresses_is_reported(tmp_path, monkeypatch) -> None:
    def refuse(*_args, **_options):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(np, "memmap", refuse)
    with pytest.raises(pk.DataError, match=r"24\.0 B cannot be mapped: .*ulimit -v.*ulimit -d"):
        on_disk.scratch_array(tmp_path, (3, 2), np.float32)
    with pytest.raises(MemoryError, match=r"a\.parquet"), name_file_in_errors(tmp_path / "a.parquet"):
        raise OSError("Memory mapping file failed: Cannot allocate memory")  # as Arrow says it


@pytest.mark.usefixtures("_tiny_blocks")
def test_parts_of_a_set_on_disk_are_on_disk(mapped, tmp_path) -> None:
    whole = pk.synthetic("web", n_lists=30, seed=3)
    ours, theirs = pk.split(mapped, (0.5, 0.5)), pk.split(whole, (0.5, 0.5))
    for one, other in zip(ours, theirs, strict=True):
        assert on_disk.is_large(one.features)
        assert np.array_equal(one.features, other.features)
    joined, expected = pk.concat(ours), pk.concat(theirs)
    assert on_disk.is_large(joined.features)
    assert np.array_equal(joined.features, expected.features)
    keep = whole.labels > 0
    assert np.array_equal(mapped.documents(keep).features, whole.documents(keep).features)
    assert [path.name for path in tmp_path.iterdir()] == ["web.pkdata"]


@pytest.mark.usefixtures("_tiny_blocks")
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("missing", [False, True])
def test_transforms_of_features_on_disk_are_the_same_to_the_bit(name, missing, tmp_path) -> None:
    data = pk.synthetic("web", n_lists=40, seed=1)
    if missing:
        features = np.array(data.features)
        features[np.random.default_rng(0).random(features.shape) < 0.2] = np.nan
        features[:, 3] = np.nan
        data = data.with_features(features)
    pk.write(data, tmp_path / "x.pkdata")
    mapped = pk.read(tmp_path / "x.pkdata", missing="nan")
    recipe = transform(name)
    fitted, expected = recipe.fit(mapped), recipe.fit(data)
    assert fitted == expected
    changed = apply_in_blocks(fitted, mapped.features, mapped.offsets)
    assert on_disk.is_large(changed)
    wanted = expected.apply(data.features, data.offsets)
    assert np.array_equal(changed, wanted, equal_nan=True)


def test_median_of_features_on_disk(mapped, monkeypatch) -> None:
    expected = transform("impute", strategy="median").fit(mapped)
    monkeypatch.setattr(on_disk, "LARGE_BYTES", 0)
    monkeypatch.setattr("plackett.data.transforms.features._COLUMN_BYTES", 40_000)
    assert transform("impute", strategy="median").fit(mapped) == expected


def test_features_are_never_whole_in_memory(tmp_path, monkeypatch) -> None:
    n_docs, width = 40_000, 100  # 16 MB
    rng = np.random.default_rng(0)
    features = rng.random((n_docs, width), dtype=np.float32)
    data = pk.Dataset.from_arrays(features, rng.integers(0, 3, n_docs), np.arange(n_docs) // 50)
    pk.write(data, tmp_path / "x.pkdata")
    mapped = pk.read(tmp_path / "x.pkdata")
    monkeypatch.setattr(on_disk, "LARGE_BYTES", 1 << 20)
    monkeypatch.setattr(on_disk, "BLOCK_BYTES", 1 << 18)
    monkeypatch.setattr("plackett.data.transforms.features._COLUMN_BYTES", 1 << 20)
    tracemalloc.start()
    try:
        part = mapped.select(np.arange(0, mapped.n_lists, 2))
        for name in TRANSFORMS:
            apply_in_blocks(transform(name).fit(part), part.features, part.offsets)
        pk.concat([part, part])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < features.nbytes / 2  # the parts together are more than twice that


@pytest.mark.usefixtures("_tiny_blocks")
def test_changes_that_are_in_memory_only_are_not_lost(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((60, 3), np.float32))
    features = np.lib.format.open_memmap(tmp_path / "x.npy", mode="c")
    features[:] = np.arange(180).reshape(60, 3)
    data = pk.Dataset.from_arrays(features, np.zeros(60), np.arange(60) // 6)
    assert features.sum() == 180 * 179 / 2
    assert data.features.sum() == 180 * 179 / 2


@pytest.mark.usefixtures("_tiny_blocks")
def test_a_mapped_array_of_the_callers_stays_on_disk(tmp_path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.random((60, 3), dtype=np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = pk.Dataset.from_arrays(mapped, np.zeros(60), np.arange(60) // 6)
    assert on_disk.is_large(data.features)
    whole = pk.Dataset.from_arrays(np.array(mapped), np.zeros(60), np.arange(60) // 6)
    assert np.array_equal(data.features, whole.features)
