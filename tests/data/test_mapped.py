from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import plackett as pk
from dataset_helpers import difference, make_rows
from plackett.base.errors import DataError
from plackett.data import large_arrays as block_sums
from plackett.data.dataset import Dataset
from plackett.data.large_arrays import CHECKSUM_BYTES, sum_blocks
from plackett.data.mapped import seal, verify_mapped
from plackett.data.reader import read
from plackett.data.writer import write

ORDER = ["order_rows", "order_lists", "keys"]
ARRAYS = [*("features", "labels", "list_of_row", "list_ids", "rows", *ORDER, "document_ids", "weights")]


@pytest.fixture
def ds() -> Dataset:
    rows = make_rows(documents=True, strings=True)
    n_lists = len(np.unique(rows.query_ids))
    return rows.dataset(weights=np.arange(n_lists) + 0.5, feature_names=["a", "b", "c"])


@pytest.fixture
def folder(tmp_path: Path, ds: Dataset) -> Path:
    write(ds, tmp_path / "set.pkdata")
    return tmp_path / "set.pkdata"


def _array(ds: Dataset, name: str) -> np.ndarray:
    """An array of the format."""
    stored = dict(zip(ORDER, (ds.order.rows, ds.order.lists, ds.order.keys), strict=True))
    return np.array(stored[name] if name in stored else getattr(ds, name))


def _manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def _save(folder: Path, content: Any) -> None:
    if isinstance(content, dict):
        content = seal(content)
    (folder / "manifest.json").write_text(json.dumps(content))


def _replace(folder: Path, name: str, array: np.ndarray) -> None:
    """Put another array in place, with a manifest that fits its file."""
    np.save(folder / f"{name}.npy", array)
    content = _manifest(folder)
    size = (folder / f"{name}.npy").stat().st_size
    content["files"][name] = {"dtype": array.dtype.str, "bytes": size}
    if content["version"] >= 3:
        content["files"][name]["crc32"] = sum_blocks(folder / f"{name}.npy")
    _save(folder, content)


def _assert_same_or_refused(folder: Path, ds: Dataset) -> bool:
    """True if refused; what is not refused must be the set that was written."""
    try:
        actual = read(folder, missing="nan")
    except DataError:
        return True
    assert np.array_equal(actual.order.rows, ds.order.rows)
    changed = difference(actual, ds)
    # Names, and arrays that are optional, are as the manifest has them.
    assert changed in (None, "feature_names") or getattr(actual, changed) is None
    return False


def test_the_form_holds_the_whole_set(folder: Path, ds: Dataset) -> None:
    assert difference(read(folder), ds) is None
    files = {f"{name}.npy" for name in ARRAYS} | {"manifest.json"}
    assert {file.name for file in folder.iterdir()} == files


def test_opening_maps_the_features_and_does_not_read_them(folder: Path) -> None:
    actual = read(folder)
    base: Any = actual.features
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert type(actual.features) is np.ndarray
    assert not actual.features.flags.writeable


def test_opening_does_not_touch_the_contents_of_the_features(tmp_path: Path, ds: Dataset) -> None:
    # A sparse file of 64 GiB of zeros: reading it would take minutes.
    n_features = 1 << 34
    small = ds.lists(0, 1).select([0])
    write(small, tmp_path / "huge.pkdata")
    folder = tmp_path / "huge.pkdata"
    with (folder / "features.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (small.n_docs, n_features)}
        np.lib.format.write_array_header_1_0(file, header)
        try:
            file.truncate(file.tell() + 4 * small.n_docs * n_features)
        except OSError:
            pytest.skip("no room for a sparse file of this size here")
    content = _manifest(folder)
    content["n_features"], content["feature_names"] = n_features, None
    size = (folder / "features.npy").stat().st_size
    sums = [0] * -(-size // CHECKSUM_BYTES)
    content["files"]["features"] |= {"bytes": size, "crc32": sums}
    _save(folder, content)
    actual = read(folder)
    assert actual.features.shape == (small.n_docs, n_features)
    assert actual.features[-1, -1] == 0


def test_parts_of_an_open_set_share_its_map(folder: Path) -> None:
    actual = read(folder)
    assert np.shares_memory(actual.lists(1, 3).features, actual.features)


def test_writing_replaces_a_set_and_nothing_else(tmp_path: Path, folder: Path) -> None:
    other = make_rows(seed=5).dataset()
    write(other, folder)
    assert difference(read(folder), other) is None
    foreign = tmp_path / "mine.pkdata"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("x")
    with pytest.raises(DataError, match="exists and is not a memory-mapped data set"):
        write(other, foreign)
    assert (foreign / "thesis.tex").read_text() == "x"


def test_an_open_set_outlives_its_replacement(folder: Path, ds: Dataset) -> None:
    actual = read(folder)
    write(make_rows(seed=5).dataset(), folder)
    assert difference(actual, ds) is None


def _mutations(value: Any) -> Iterator[Any]:
    yield from (None, -1, 0, 10**30, 1.5, True, "x", "", [], {}, [None], {"x": 1}, "../../etc/passwd")
    if isinstance(value, int):
        yield from (value + 1, value - 1, -value, value * 2**40, float(value), str(value))
    if isinstance(value, str):
        yield from (value + "x", value.upper(), value * 1000, "|O", ">f4", "<f8", "<U4000000")


def _places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in content.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from _places(value, (*path, key))


def _set(content: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(content)
    inner = result
    for key in place[:-1]:
        inner = inner[key]
    if value is _GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return result


_GONE = object()


def test_a_manifest_with_any_field_changed_is_refused_or_harmless(folder: Path, ds: Dataset) -> None:
    content = _manifest(folder)
    places = list(_places(content))
    assert len(places) > 20
    for place in places:
        current = content
        for key in place:
            current = current[key]
        refused = []
        for value in (_GONE, *_mutations(current)):
            _save(folder, _set(content, place, value))
            refused.append(_assert_same_or_refused(folder, ds))
        # Names of features, optional arrays and missing values are for the writer to say.
        if place[0] not in ("feature_names", "missing", "sha256") and place[-1] not in ARRAYS:
            assert all(
                is_refused or value == current
                for is_refused, value in zip(refused[1:], _mutations(current), strict=True)
            ), place


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1", '"x"', "[" * 100_000, '{"format": "plackett data"}', "\x00", "{}"],
    ids=lambda text: text[:10],
)
def test_a_manifest_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json"):
        read(folder)


def test_a_manifest_of_bytes_that_are_no_text_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not a readable manifest"):
        read(folder)


def test_a_later_version_says_what_to_do(folder: Path) -> None:
    _save(folder, _manifest(folder) | {"version": 4})
    with pytest.raises(DataError, match="version 4 of its format, and this release reads versions 1 to 3"):
        read(folder)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_file_cut_at_any_place_is_refused(folder: Path, name: str) -> None:
    path = folder / f"{name}.npy"
    whole = path.read_bytes()
    for cut in {0, 1, 5, 6, 8, 10, 60, 127, 128, 129, len(whole) // 2, len(whole) - 1}:
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=rf"{name}\.npy"):
            read(folder)
    path.unlink()
    with pytest.raises(DataError, match=rf"{name}\.npy"):
        read(folder)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_value_changed_in_any_array_is_refused_at_its_first_use(folder: Path, name: str) -> None:
    path = folder / f"{name}.npy"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(DataError, match=rf"{name}\.npy: bytes 0 to .* their checksum differs"):
        verify_mapped(folder)
    if name == "features":
        actual = read(folder)  # they are not read here
        for use in (
            lambda: pk.LinearRanker().fit(actual),
            lambda: pk.describe(actual),
            lambda: write(actual, folder.with_name("copy.txt")),
        ):
            with pytest.raises(DataError, match="their checksum differs"):
                use()


def test_a_whole_set_is_verified_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify_mapped(folder)
    actual = read(folder)
    calls: list[int] = []
    monkeypatch.setattr(block_sums, "_check_sums", lambda *_: calls.append(1))
    pk.describe(actual)
    pk.describe(actual.lists(0, 1))
    assert len(calls) == 1


def test_features_without_checksums_must_be_finite(folder: Path) -> None:
    content = _manifest(folder) | {"version": 2}
    content["files"] = {name: {key: file[key] for key in ("dtype", "bytes")} for name, file in content["files"].items()}
    _save(folder, content)
    assert not verify_mapped(folder)
    features = np.load(folder / "features.npy")
    features[1, 2] = np.inf
    np.save(folder / "features.npy", features)
    with pytest.raises(DataError, match="row 1, feature 3 is inf; the data set is damaged"):
        pk.LinearRanker().fit(read(folder))


@pytest.mark.parametrize("name", ARRAYS)
def test_a_longer_file_is_refused(folder: Path, name: str) -> None:
    with (folder / f"{name}.npy").open("ab") as file:
        file.write(b"\0" * 64)
    with pytest.raises(DataError, match=rf"{name}\.npy.*the data set is damaged"):
        read(folder)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_header_with_any_byte_changed_is_refused_or_harmless(folder: Path, ds: Dataset, data: st.DataObject) -> None:
    path = folder / f"{data.draw(st.sampled_from(ARRAYS))}.npy"
    whole = path.read_bytes()
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    path.write_bytes(changed)
    try:
        _assert_same_or_refused(folder, ds)
    finally:
        path.write_bytes(whole)


def test_an_array_that_begins_within_its_header_is_refused(folder: Path) -> None:
    path = folder / "features.npy"
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[8] = 60  # the length of the header, which is padded with spaces
    path.write_bytes(changed)
    try:
        with pytest.raises(DataError):
            read(folder)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ARRAYS)
def test_pickled_objects_are_never_loaded(tmp_path: Path, folder: Path, name: str, ds: Dataset) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "executed"),)

    bomb = np.empty(len(_array(ds, name)), object)
    bomb[:] = [Bomb() for _ in bomb]
    with (folder / f"{name}.npy").open("wb") as file:
        np.save(file, bomb, allow_pickle=True)
    content = _manifest(folder)
    content["files"][name]["bytes"] = (folder / f"{name}.npy").stat().st_size
    _save(folder, content)
    with pytest.raises(DataError, match=rf"{name}\.npy"):
        read(folder)
    (folder / f"{name}.npy").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match=rf"{name}\.npy"):
        read(folder)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("labels", lambda a: np.where(a == a[0], -1, a).astype("<f4"), "label -1"),
        ("labels", lambda a: np.full_like(a, np.nan), "label nan"),
        ("labels", lambda a: np.full_like(a, np.inf), "label inf"),
        ("list_of_row", lambda a: a - 1, "list_of_row must lie from 0 to 5"),
        ("list_of_row", lambda a: a[::-1].copy(), "list_of_row must number the lists from 0"),
        ("order_rows", lambda a: a[::-1].copy(), "order_rows must hold the rows of each list"),
        ("order_rows", lambda a: a + 1, "order_rows must lie from 0 to 39"),
        ("order_lists", lambda a: np.zeros_like(a), "order_lists must all be different"),
        ("rows", lambda a: a - 1, "rows must lie from 0 to 39"),
        ("rows", lambda a: a + 1, "rows must lie from 0 to 39"),
        ("rows", lambda a: np.where(a == 3, 4, a), "rows must all be different"),
        ("weights", lambda a: -a, "weights must be finite and not negative"),
        ("weights", lambda a: a * np.nan, "weights must be finite and not negative"),
        ("list_ids", lambda a: np.full(len(a), 2**31, "<u4").view("<U1"), "bytes that are not text"),
    ],
)
def test_contents_that_cannot_be_right_are_refused(
    folder: Path, ds: Dataset, name: str, change: Any, message: str
) -> None:
    _replace(folder, name, change(_array(ds, name)))
    with pytest.raises(DataError, match=rf"set\.pkdata: .*{message}"):
        read(folder)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_of_another_type_or_shape_is_refused(folder: Path, ds: Dataset, name: str) -> None:
    array = _array(ds, name)
    backup = folder.with_suffix(".backup")
    shutil.copytree(folder, backup)
    changes = [array[1:], array.reshape(-1, 1, 1), array.astype(array.dtype.newbyteorder(">"))]
    for changed in (*changes, np.asfortranarray(np.ones((40, 3), "<f4"))):
        shutil.rmtree(folder)
        shutil.copytree(backup, folder)
        _replace(folder, name, changed)
        with pytest.raises(DataError, match=r"manifest\.json|\.npy"):
            read(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_docs": 6.0}, "n_docs must be a whole number, 1 or greater, got 6.0"),
        ({"n_lists": 0}, "n_lists must be a whole number, 1 or greater, got 0"),
        ({"n_rows": None}, "n_rows must be a whole number, 1 or greater, got None"),
    ],
)
def test_a_wrong_count_is_shown_with_what_is_allowed(folder: Path, change: dict[str, Any], message: str) -> None:
    _save(folder, _manifest(folder) | change)
    with pytest.raises(DataError, match=message):
        read(folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("list_ids", {"dtype": "<f8"}, r"the dtype of list_ids must be '<i8' \(integers\) or "),
        ("labels", {"dtype": "<f8"}, "the dtype of labels must be '<f4', got '<f8'"),
        ("labels", {"bytes": 1.5}, "the bytes of labels must be a whole number, 1 or greater, got"),
    ],
)
def test_a_wrong_file_of_a_manifest_is_explained_in_words(
    folder: Path, name: str, change: dict[str, Any], message: str
) -> None:
    content = _manifest(folder)
    content["files"][name] |= change
    _save(folder, content)
    with pytest.raises(DataError, match=message):
        read(folder)


def test_version_1_is_read_into_the_order_of_the_rows(folder: Path, ds: Dataset) -> None:
    canonical = ds.canonical()
    for name in ("list_of_row", "list_ids", "order_rows", "order_lists"):
        (folder / f"{name}.npy").unlink()
    content = _manifest(folder)
    content["version"], content["files"] = 1, {}
    arrays = {name: getattr(canonical, name) for name in ("features", "labels", "offsets", "rows")}
    arrays |= {name: getattr(canonical, name) for name in ("keys", "document_ids", "weights")}
    _save(folder, content)
    for name, array in (arrays | {"query_ids": canonical.list_ids}).items():
        _replace(folder, name, np.array(array))
    actual = read(folder)
    assert difference(actual, ds) is None
    for name in ("rows", "lists", "offsets", "keys"):
        assert np.array_equal(getattr(actual.order, name), getattr(ds.order, name))
