from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataset_helpers import make_rows
from plackett.base.errors import DataError, UsageError
from plackett.data.dataset import Dataset
from plackett.data.trec import is_run, judge_run, read_qrels, read_run, write_qrels, write_run

QRELS = "301 0 d1 1\n301 0 d2 0\n301 0 d9 2\n302 0 d1 -2\n302 0 d3 1\n303 0 d1 1\n"
RUN = """301 Q0 d2 1 3.5 tag
301 Q0 d1 2 3.25 tag
301 Q0 d7 3 -1e-3 tag
302\tQ0\td1\t1\t7\ttag
302 Q0 d3 2 7.0 tag
399 Q0 d1 1 1.0 tag
"""


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    (tmp_path / "qrels.txt").write_text(QRELS)
    return tmp_path / "qrels.txt"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "a.run").write_text(RUN)
    return tmp_path / "a.run"


def _lists(dataset: Dataset, scores: np.ndarray) -> dict[str, dict[str, tuple[float, float]]]:
    actual = {}
    for at, query in enumerate(dataset.list_ids.tolist()):
        rows = dataset.list_of_row == at
        pairs = zip(dataset.labels[rows].tolist(), scores[rows].tolist(), strict=True)
        actual[query] = dict(zip(dataset.document_ids[rows].tolist(), pairs, strict=True))
    return actual


def test_files_are_mappings_in_their_own_order(qrels: Path, run: Path) -> None:
    judgements, scores = read_qrels(qrels), read_run(run)
    assert dict(judgements) == {"301": {"d1": 1, "d2": 0, "d9": 2}, "302": {"d1": -2, "d3": 1}, "303": {"d1": 1}}
    assert list(scores) == ["301", "302", "399"]
    assert list(scores["301"].items()) == [("d2", 3.5), ("d1", 3.25), ("d7", -1e-3)]
    assert "404" not in scores
    assert repr(scores).endswith("a.run: 3 queries, 6 documents)")


def test_rows_of_a_query_need_not_stand_together(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("1 0 a 1\n2 0 a 1\n\n1 0 b 2\n")
    assert dict(read_qrels(tmp_path / "q")) == {"1": {"a": 1, "b": 2}, "2": {"a": 1}}


def test_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.run.gz").write_bytes(gzip.compress(RUN.encode()))
    (tmp_path / "a.run.xz").write_bytes(lzma.compress(RUN.encode()))
    for suffix in ("gz", "xz"):
        assert len(read_run(tmp_path / f"a.run.{suffix}")) == 3
        assert is_run(tmp_path / f"a.run.{suffix}")


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_damaged_archives_are_refused_by_name(tmp_path: Path, suffix: str, compress: Any) -> None:
    path = tmp_path / f"a.{suffix}"
    whole = compress(b"".join(b"1 Q0 d%d 1 %d t\n" % (i, i**3) for i in range(2000)))
    for damaged in (whole[:30], whole[:20] + b"\xa5" * 64 + whole[84:], RUN.encode()):
        path.write_bytes(damaged)
        for read in (read_run, read_qrels, is_run):
            with pytest.raises(DataError, match=rf"a\.{suffix}: corrupt or truncated file"):
                read(path)


def test_a_byte_order_mark_is_no_part_of_the_first_query(tmp_path: Path) -> None:
    (tmp_path / "q").write_text(QRELS, encoding="utf-8-sig")
    assert list(read_qrels(tmp_path / "q")) == ["301", "302", "303"]


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "q").write_bytes(QRELS.encode() + b"304 0 \xe9 1\n")
    with pytest.raises(DataError, match="q:7: the text is not UTF-8"):
        read_qrels(tmp_path / "q")


def test_labels_up_to_the_largest_float32_are_read(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("1 0 a 3.4028235e38\n1 0 b 3.40282356e38\n1 0 c 3.40282357e38\n")
    with pytest.raises(DataError, match=r"q:3: label 3\.40282357e38 is beyond float32"):
        read_qrels(tmp_path / "q")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1 0 a\n", 1, "3 columns; a line has the 4 columns 'query iteration document label'"),
        ("1 0 a 1\n1 0 b 1 x\n", 2, "5 columns"),
        ("1 0 a 1\n\n1 0 b high\n", 3, "label 'high' is not a number"),
        ("1 0 a nan\n", 1, "label nan; a label is a finite number"),
        ("1 0 a 1\n1 0 a 1\n", 2, "document 'a' of query '1' occurs a second time"),
        ("1 0 a 1_0\n", 1, "label '1_0' is not a number"),
        ("1 0 a 1\n1 0 b ٣\n", 2, "label '٣' is not a number"),
        ("1 0 a 1\n1 0 b 1e39\n", 2, "label 1e39 is beyond float32"),
        ("1 0 a 1\n1 0 b\0 1\n", 2, "NUL byte; the file is not text"),
    ],
)
def test_bad_qrels_are_refused_with_the_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    (tmp_path / "q").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=f"q:{line}: {message}"):
        read_qrels(tmp_path / "q")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1 Q0 a 1 2.0\n", 1, "5 columns; a line has the 6 columns 'query Q0 document rank"),
        ("1 Q0 a 1 2.0 t\n1 Q0 b 1 best t\n", 2, "score 'best' is not a number"),
        ("1 Q0 a 1 nan t\n", 1, "score nan; a score is a finite number"),
        ("1 Q0 a 1 1_0 t\n", 1, "score '1_0' is not a number"),
        ("1 Q0 a 1 -inf t\n", 1, "score -inf; a score is a finite number"),
        ("1 Q0 a 1 2 t\n2 Q0 a 1 2 t\n1 Q0 a 3 1 t\n", 3, "document 'a' of query '1' occurs a s"),
    ],
)
def test_bad_runs_are_refused_with_the_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(DataError, match=f"r:{line}: {message}"):
        read_run(tmp_path / "r")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: cannot be read"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(DataError, match="empty: has no lines; a line reads 'query Q0 document"):
        read_run(tmp_path / "empty")
    (tmp_path / "latin").write_bytes("1 0 é 1\n".encode("latin-1"))
    with pytest.raises(DataError, match="latin:1: the text is not UTF-8"):
        read_qrels(tmp_path / "latin")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(RUN.encode())[:-9])
    with pytest.raises(DataError, match=r"cut\.gz: corrupt or truncated file"):
        read_run(tmp_path / "cut.gz")


def test_runs_are_told_from_other_files(tmp_path: Path, qrels: Path, run: Path) -> None:
    assert is_run(run)
    assert not is_run(qrels)
    assert not is_run(tmp_path / "nowhere")
    (tmp_path / "wrong.run").write_text("\n1 Q0 a 1 best t\n")
    assert is_run(tmp_path / "wrong.run")  # so that reading it says what is wrong
    (tmp_path / "scores.txt").write_text("0.5\n0.25\n")
    assert not is_run(tmp_path / "scores.txt")
    np.save(tmp_path / "scores.npy", np.full(9, np.nan))
    assert not is_run(tmp_path / "scores.npy")


def test_a_run_is_joined_with_its_judgements(qrels: Path, run: Path) -> None:
    dataset, scores = judge_run(read_run(run), read_qrels(qrels))
    assert dataset.n_features == 0
    assert _lists(dataset, scores) == {
        "301": {
            "d2": (0, 3.5),
            "d1": (1, 3.25),
            "d7": (0, -1e-3),  # retrieved, not judged
            "d9": (2, -np.inf),  # judged, not retrieved
        },
        "302": {"d1": (0, 7), "d3": (1, 7)},  # a negative label counts as 0
    }


def test_judged_queries_that_the_run_lacks_are_kept_on_request(qrels: Path, run: Path) -> None:
    dataset, scores = judge_run(read_run(run), read_qrels(qrels), missing_queries="zero")
    lists = _lists(dataset, scores)
    assert sorted(lists) == ["301", "302", "303"]
    assert lists["303"] == {"d1": (1, -np.inf)}


def test_the_order_of_lines_does_not_matter(tmp_path: Path, qrels: Path, run: Path) -> None:
    (tmp_path / "b.run").write_text("".join(reversed(RUN.splitlines(keepends=True))))
    one, scores = judge_run(read_run(run), read_qrels(qrels))
    other, other_scores = judge_run(read_run(tmp_path / "b.run"), read_qrels(qrels))
    assert _lists(one, scores) == _lists(other, other_scores)


def test_joins_that_make_no_sense_are_refused(tmp_path: Path, qrels: Path, run: Path) -> None:
    (tmp_path / "other").write_text("9 0 a 1\n")
    with pytest.raises(DataError, match=r"no query of .*a\.run is judged in .*other"):
        judge_run(read_run(run), read_qrels(tmp_path / "other"))
    with pytest.raises(UsageError, match="missing_queries must be"):
        judge_run(read_run(run), read_qrels(qrels), missing_queries="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize("strings", [False, True])
def test_what_is_written_is_read_back(tmp_path: Path, strings: bool) -> None:
    ds = make_rows(documents=strings, strings=strings).dataset()
    scores = np.random.default_rng(0).normal(size=ds.n_docs) / 3
    write_qrels(ds, tmp_path / "q")
    write_run(ds, scores, tmp_path / "r", tag="mine")
    dataset, again = judge_run(read_run(tmp_path / "r"), read_qrels(tmp_path / "q"))
    expected = Dataset.from_arrays(
        np.empty((ds.n_docs, 0)),
        ds.labels,
        ds.query_ids.astype(str),
        document_ids=(np.arange(ds.n_docs) if not strings else ds.document_ids),
    )
    assert _lists(dataset, again) == {
        query: {str(document): pair for document, pair in documents.items()}
        for query, documents in _lists(expected, scores).items()
    }


def test_a_run_ranks_by_score_and_equal_scores_as_the_metrics_do(tmp_path: Path) -> None:
    ds = Dataset.from_arrays(np.empty((4, 0)), [0, 1, 2, 3], ["q"] * 4, document_ids=["a", "b", "c", "d"])
    scores = np.array([0.5, 2.0, 0.5, 1 / 3])
    write_run(ds, scores, tmp_path / "r")
    first, second = sorted("ac", key=lambda name: ds.order.places["abcd".index(name)])
    assert (tmp_path / "r").read_text() == (
        f"q Q0 b 1 2.0 plackett\nq Q0 {first} 2 0.5 plackett\nq Q0 {second} 3 0.5 plackett\n"
        "q Q0 d 4 0.3333333333333333 plackett\n"
    )


def test_lists_are_written_in_the_callers_order(tmp_path: Path) -> None:
    ids = [f"q{i}" for i in range(20)]
    ds = Dataset.from_arrays(np.arange(20.0)[:, None], np.arange(20), ids)
    write_run(ds, np.zeros(20), tmp_path / "r")
    write_qrels(ds, tmp_path / "q")
    assert list(read_run(tmp_path / "r")) == ids
    assert list(read_qrels(tmp_path / "q")) == ids


def test_documents_not_retrieved_are_not_written(tmp_path: Path) -> None:
    ds = Dataset.from_arrays([[1.0], [2.0]], [0, 1], ["q", "q"])
    scores = np.where(ds.rows == 0, -np.inf, 1.0)
    write_run(ds, scores, tmp_path / "r")
    assert dict(read_run(tmp_path / "r")) == {"q": {"1": 1.0}}


def test_whole_labels_are_integers_and_others_exact(tmp_path: Path) -> None:
    ds = Dataset.from_arrays([[1.0], [2.0]], [3, 0.1], ["q", "q"])
    write_qrels(ds, tmp_path / "q")
    assert (tmp_path / "q").read_text().splitlines()[0] == "q 0 0 3"
    assert np.float32(read_qrels(tmp_path / "q")["q"]["1"]) == np.float32(0.1)


def test_a_document_twice_in_a_query_is_not_written(tmp_path: Path) -> None:
    ds = Dataset.from_arrays([[1], [2], [3]], [0, 1, 0], ["q", "q", "p"], document_ids=["d"] * 3)
    message = "document 'd' of query 'q' occurs more than once"
    with pytest.raises(DataError, match=message):
        write_qrels(ds, tmp_path / "q")
    with pytest.raises(DataError, match=message):
        write_run(ds, np.zeros(3), tmp_path / "r")
    assert not list(tmp_path.iterdir())
    write_run(ds, np.where(ds.rows == 0, -np.inf, 1.0), tmp_path / "r")  # one is not retrieved
    assert dict(read_run(tmp_path / "r")) == {"q": {"d": 1}, "p": {"d": 1}}


@pytest.mark.parametrize("scores", [[0.0], [0.0, np.nan], [0.0, np.inf]])
def test_scores_that_cannot_rank_are_refused(tmp_path: Path, scores: list[float]) -> None:
    ds = Dataset.from_arrays([[1.0], [2.0]], [0, 1], ["q", "q"])
    with pytest.raises(DataError, match="scores"):
        write_run(ds, scores, tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("word", ["two words", "", " x", "a\tb"])
def test_ids_and_tags_are_single_words(tmp_path: Path, word: str) -> None:
    ds = Dataset.from_arrays([[1.0]], [0], [word])
    with pytest.raises(DataError, match=r"query id .* cannot be written: an id is one word"):
        write_run(ds, [0.0], tmp_path / "r")
    ds = Dataset.from_arrays([[1.0]], [0], ["q"], document_ids=[word])
    with pytest.raises(DataError, match=r"document id .* cannot be written"):
        write_qrels(ds, tmp_path / "q")
    with pytest.raises(UsageError, match="the tag of a run is one word"):
        write_run(ds, [0.0], tmp_path / "r", tag=word)


def test_metrics_of_a_joined_run_are_those_of_trec_eval(tmp_path: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    from plackett.metrics import metric

    rng = np.random.default_rng(0)
    qrels, run = [], []
    for query in range(60):
        judgements = rng.choice(60, 20, replace=False)
        qrels += [f"{query} 0 d{d} {rng.integers(-1, 4)}\n" for d in judgements]
        if query % 7:  # some queries are judged and not in the run
            retrieved = rng.choice(60, rng.integers(1, 30), replace=False)
            run += [f"{query} Q0 d{d} 0 {rng.integers(0, 8) / 2} t\n" for d in retrieved]
    (tmp_path / "q").write_text("".join(qrels))
    (tmp_path / "r").write_text("".join(run))
    judgements, scored = read_qrels(tmp_path / "q"), read_run(tmp_path / "r")
    names = {"ndcg@10": "ndcg_cut_10", "map": "map", "precision@5": "P_5", "mrr": "recip_rank"}
    whole = {q: {d: int(y) for d, y in docs.items()} for q, docs in judgements.items()}
    expected = pytrec_eval.RelevanceEvaluator(whole, set(names.values())).evaluate(dict(scored))
    ds, scores = judge_run(scored, judgements)
    assert sorted(ds.list_ids.tolist()) == sorted(expected)
    for ours, theirs in names.items():
        m = metric(ours, convention="trec_eval")
        actual = m(scores, ds.labels, ds.offsets, document_ids=ds.document_ids)
        assert actual == pytest.approx([expected[q][theirs] for q in ds.list_ids.tolist()])
