from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dataset_helpers import Rows, difference, make_rows, row_sets
from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.data.dataset import Dataset
from plackett.data.reader import open_data, read
from plackett.data.writer import write

SUFFIXES = [".txt", ".dat", ".svmlight", ".letor", ".libsvm", ".txt.gz", ".dat.xz", ".TXT"]
SUFFIXES += [".parquet", ".arrow", ".feather", ".pkdata"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("strings", [False, True])
def test_what_is_written_is_read_back_the_same(tmp_path: Path, suffix: str, strings: bool) -> None:
    ds = make_rows(documents=strings, strings=strings).dataset()
    write(ds, tmp_path / f"set{suffix}")
    assert difference(read(tmp_path / f"set{suffix}"), ds) is None


def test_document_ids_of_text_are_strings_and_give_the_same_order(tmp_path: Path) -> None:
    ds = make_rows(documents=True).dataset()
    write(ds, tmp_path / "set.txt")
    again = read(tmp_path / "set.txt")
    assert again.document_ids.tolist() == ds.document_ids.astype(str).tolist()
    assert np.array_equal(again.keys, ds.keys)
    assert np.array_equal(again.rows, ds.rows)


@given(rows=row_sets(), suffix=st.sampled_from([".parquet", ".arrow", ".pkdata"]))
def test_every_set_survives_a_binary_format(tmp_path_factory: pytest.TempPathFactory, rows: Rows, suffix: str) -> None:
    folder = tmp_path_factory.mktemp("sets")
    names = [f"feature {j}" for j in range(rows.features.shape[1])]
    ds = rows.take(np.argsort(rows.query_ids, kind="stable")).dataset(
        weights=np.random.default_rng(0).random(len(np.unique(rows.query_ids))), feature_names=names or None
    )
    write(ds, folder / f"set{suffix}")
    assert difference(read(folder / f"set{suffix}"), ds) is None


@pytest.mark.parametrize("suffix", [".txt", ".parquet", ".arrow", ".pkdata"])
def test_missing_values_survive_and_must_be_asked_for(tmp_path: Path, suffix: str) -> None:
    rows = make_rows()
    rows.features[3, 1] = np.nan
    ds = rows.dataset(missing="nan")
    write(ds, tmp_path / f"set{suffix}")
    assert difference(read(tmp_path / f"set{suffix}", missing="nan"), ds) is None
    with pytest.raises(DataError, match="nan"):
        read(tmp_path / f"set{suffix}")


@pytest.mark.parametrize("suffix", [".txt", ".parquet", ".arrow"])
def test_files_hold_the_rows_in_the_callers_order(tmp_path: Path, suffix: str) -> None:
    ds = make_rows(documents=True).dataset()
    write(ds, tmp_path / f"set{suffix}")
    again = read(tmp_path / f"set{suffix}")
    assert np.array_equal(again.rows, ds.rows)


def test_a_part_of_a_set_is_written_in_the_order_of_its_rows(tmp_path: Path) -> None:
    ds = make_rows(documents=True).dataset().select([0, 2, 3])
    write(ds, tmp_path / "part.parquet")
    again = read(tmp_path / "part.parquet")
    assert np.array_equal(again.labels, ds.labels)
    assert np.array_equal(again.document_ids, ds.document_ids)
    write(ds, tmp_path / "part.pkdata")
    assert difference(read(tmp_path / "part.pkdata"), ds) is None


def test_sparse_features_are_written_as_dense_ones(tmp_path: Path) -> None:
    from scipy.sparse import csr_array

    rows = make_rows()
    sparse = Dataset.from_arrays(csr_array(rows.features), rows.labels, rows.query_ids)
    for suffix in (".txt", ".parquet", ".pkdata"):
        write(sparse, tmp_path / f"set{suffix}")
        assert difference(read(tmp_path / f"set{suffix}"), rows.dataset()) is None


def test_text_without_zeros_needs_its_width(tmp_path: Path) -> None:
    rows = make_rows()
    rows.features[:, 2] = 0
    write(rows.dataset(), tmp_path / "sparse.txt", sparse=True)
    assert " 3:" not in (tmp_path / "sparse.txt").read_text()
    assert read(tmp_path / "sparse.txt").n_features == 2
    assert difference(read(tmp_path / "sparse.txt", n_features=3), rows.dataset()) is None


def test_compressed_text_is_what_its_suffix_says(tmp_path: Path) -> None:
    ds = make_rows().dataset()
    for suffix in ("", ".gz", ".xz"):
        write(ds, tmp_path / f"set.txt{suffix}")
    plain = (tmp_path / "set.txt").read_bytes()
    assert gzip.decompress((tmp_path / "set.txt.gz").read_bytes()) == plain
    assert lzma.decompress((tmp_path / "set.txt.xz").read_bytes()) == plain


@pytest.mark.parametrize("name", ["set.xls", "set", "set.gz", "set.parquet.gz", "set.json"])
def test_an_unknown_suffix_is_refused_with_those_that_exist(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    for attempt in (lambda p: read(p), lambda p: write(make_rows().dataset(), p)):
        with pytest.raises(UsageError, match=r"\.txt .*\.parquet \.arrow .*\.pkdata"):
            attempt(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: there is no such file"):
        read(tmp_path / "nowhere.txt")


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(DataError, match=r"neither a manifest\.json .* nor \.parquet"):
        read(tmp_path)


def test_a_file_with_the_suffix_of_the_mapped_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set.pkdata").write_text("x")
    with pytest.raises(DataError, match="is a directory, and this is a file"):
        read(tmp_path / "set.pkdata")


@pytest.mark.parametrize("option", ["label", "query", "document", "weight", "features"])
@pytest.mark.parametrize("suffix", [".txt", ".pkdata"])
def test_columns_cannot_be_named_where_there_are_none(tmp_path: Path, option: str, suffix: str) -> None:
    write(make_rows().dataset(), tmp_path / f"set{suffix}")
    with pytest.raises(UsageError, match=f"{option}= names columns"):
        read(tmp_path / f"set{suffix}", **{option: "x"})


@pytest.mark.parametrize("suffix", [".parquet", ".pkdata"])
def test_a_width_that_is_known_is_checked(tmp_path: Path, suffix: str) -> None:
    write(make_rows().dataset(), tmp_path / f"set{suffix}")
    assert read(tmp_path / f"set{suffix}", n_features=3).n_features == 3
    with pytest.raises(DataError, match="there are 3 features, and n_features=4 was given"):
        read(tmp_path / f"set{suffix}", n_features=4)


@pytest.mark.parametrize("suffix", [".txt", ".parquet"])
def test_scattered_queries_are_merged_with_a_warning_or_refused(tmp_path: Path, suffix: str) -> None:
    ds = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], ["a", "b", "a"])
    write(ds, tmp_path / f"set{suffix}")
    with pytest.warns(DataWarning, match="not next to each other"):
        again = read(tmp_path / f"set{suffix}")
    assert difference(again, ds) is None
    with pytest.raises(DataError, match="strict"):
        read(tmp_path / f"set{suffix}", strict=True)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".parquet", ".arrow"])
def test_progress_rises_to_the_size_of_the_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"set{suffix}"
    write(make_rows(3000, n_lists=40).dataset(), path)
    calls: list[tuple[int, int]] = []
    read(path, progress=lambda done, total: calls.append((done, total)))
    done = [d for d, _ in calls]
    assert done == sorted(done)
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)


def test_weights_cannot_go_into_text(tmp_path: Path) -> None:
    ds = make_rows().dataset(weights=np.ones(6))
    with pytest.warns(DataWarning, match="cannot hold weights"):
        write(ds, tmp_path / "set.txt")
    assert read(tmp_path / "set.txt").weights is None


def test_lists_of_the_same_name_are_not_merged_by_writing(tmp_path: Path) -> None:
    from plackett.data.folds import concat

    ds = make_rows(seed=0, n_lists=2).dataset()
    both = concat([ds, make_rows(seed=1, n_lists=2).dataset()])
    for suffix in (".txt", ".parquet"):
        with pytest.raises(DataError, match="2 lists have the query id 3"):
            write(both, tmp_path / f"set{suffix}")
    write(both, tmp_path / "set.pkdata")
    assert difference(read(tmp_path / "set.pkdata"), both) is None


@pytest.mark.parametrize("suffix", [".txt", ".parquet", ".arrow", ".pkdata"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"set{suffix}"
    ds = make_rows().dataset()
    write(ds, path)

    def fail(_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("plackett.base.files.sync", fail)
    with pytest.raises(OSError, match="no space left"):
        write(make_rows(seed=1).dataset(), path)
    assert difference(read(path), ds) is None
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_reading_text_does_not_import_arrow(tmp_path: Path) -> None:
    import subprocess
    import sys

    write(make_rows().dataset(), tmp_path / "set.txt")
    code = (
        "import sys; from plackett.data.reader import read; "
        f"read({str(tmp_path / 'set.txt')!r}); sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["OHSUMED", "MQ2007_partial", "MSLR_5k", "LightGBM_lambdarank"])
@pytest.mark.parametrize("suffix", [".txt.gz", ".parquet", ".pkdata"])
def test_real_data_survive_every_format(real_data: Path, tmp_path: Path, name: str, suffix: str) -> None:
    ds = read(real_data / name / "Fold1" / "test.txt")
    write(ds, tmp_path / f"set{suffix}")
    assert difference(read(tmp_path / f"set{suffix}"), ds) is None


def test_patterns_and_several_files_are_one_data_set(tmp_path: Path) -> None:
    ds = make_rows().dataset()
    lists = [np.arange(ds.n_lists)[start::2] for start in (0, 1)]
    for number, positions in enumerate(lists):
        write(ds.select(positions), tmp_path / f"part-{number}.parquet")
    paths = [tmp_path / f"part-{number}.parquet" for number in (0, 1)]
    expected = read(tmp_path)
    for source in (tmp_path / "part-*.parquet", paths, [tmp_path]):
        assert difference(read(source), expected) is None
        assert difference(open_data(source), expected) is None
        assert difference(open_data(source, stream=True), expected) is None
    write(ds, tmp_path / "set.txt")
    with pytest.raises(UsageError, match="several files form one data set only if"):
        read([*paths, tmp_path / "set.txt"])


@pytest.mark.parametrize("suffix", [".txt", ".parquet"])
def test_data_is_streamed_if_it_does_not_fit_in_memory(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = make_rows().dataset()
    write(ds, tmp_path / f"set{suffix}")
    calls: list[object] = []
    monkeypatch.setattr("plackett.data.streaming.stream", lambda files, **_: calls.append(files))
    open_data(tmp_path / f"set{suffix}")
    assert not calls
    monkeypatch.setattr("plackett.data.reader.available_memory", lambda: 10)
    open_data(tmp_path / f"set{suffix}")
    assert len(calls) == 1
    assert difference(open_data(tmp_path / f"set{suffix}", stream=False), ds) is None
