"""The commands as a person runs them: arguments in, text or JSON out, one line for an error."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest

import plackett as pk
from plackett.cli import main
from plackett.experiments.quickstart import _TREES as QUICKSTART_TREES


class Run(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def _run(*arguments: object) -> Run:
    """Run a command in this process, which saves the imports of a new one."""
    out, err = io.StringIO(), io.StringIO()
    command = ["plackett", *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", command),
        mock.patch.object(warnings, "showwarning"),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    return Run(int(end.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set as text, and scores for it."""
    path = tmp_path_factory.mktemp("data")
    data = pk.synthetic("letor", n_lists=20, seed=1)
    pk.write(data, path / "data.txt")
    rng = np.random.default_rng(0)
    by_row = data.labels
    np.savetxt(path / "good.txt", by_row + rng.normal(size=data.n_docs))
    np.save(path / "bad.npy", rng.normal(size=data.n_docs))
    return path


def test_describe_prints_counts_for_people_and_for_machines(folder) -> None:
    table = _run("describe", folder / "data.txt")
    assert table.returncode == 0, table.stderr
    assert "queries (lists)" in table.stdout
    assert "lists by number of documents" in table.stdout
    payload = json.loads(_run("describe", folder / "data.txt", "--json").stdout)
    assert payload["n_lists"] == 20
    assert sum(payload["labels"].values()) == payload["n_docs"]


def test_evaluate_agrees_with_the_library(folder) -> None:
    run = _run("evaluate", folder / "good.txt", folder / "data.txt", "--json")
    assert run.returncode == 0, run.stderr
    data = pk.read(folder / "data.txt")
    scores = np.loadtxt(folder / "good.txt")
    payload = json.loads(run.stdout)["metrics"]
    assert payload == pytest.approx(pk.evaluate(scores, data, list(payload)))


@pytest.mark.filterwarnings("ignore:.*not next to each other")
@pytest.mark.parametrize("suffix", [".npy", ".txt"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_scores_of_a_file_are_in_the_order_of_its_rows(folder, tmp_path, suffix, shuffled) -> None:
    data, model = tmp_path / "data.csv", tmp_path / "m.plackett"
    whole = pk.read(folder / "data.txt")
    if shuffled:
        rows = np.random.default_rng(0).permutation(whole.n_docs)
        whole = pk.Dataset.from_arrays(whole.features[rows], whole.labels[rows], whole.query_ids[rows])
    pk.write(whole, data)
    options = ("--set", "trees=3", "--out", model)
    assert _run("train", data, "--model", "lambdamart", *options).returncode == 0
    scores = tmp_path / f"scores{suffix}"
    assert _run("rank", model, data, "--out", scores).returncode == 0
    by_row = np.load(scores) if suffix == ".npy" else np.loadtxt(scores)
    assert np.array_equal(by_row, pk.load(model).predict(whole))
    payload = json.loads(_run("evaluate", model, data, "--metrics", "ndcg@5", "--json").stdout)
    assert payload["metrics"] == pk.evaluate(by_row, whole, "ndcg@5")


def test_the_columns_that_were_taken_are_told(folder, tmp_path) -> None:
    pk.write(pk.read(folder / "data.txt"), tmp_path / "data.csv")
    told = _run("describe", tmp_path / "data.csv", "--drop", "f3").stderr
    assert "took label 'label', query 'query_id'" in told
    assert "45 features" in told
    named = _run("describe", tmp_path / "data.csv", "--features", "f3,f1", "--json")
    assert json.loads(named.stdout)["n_features"] == 2
    assert "took" not in named.stderr


def test_evaluate_compares_with_a_baseline(folder) -> None:
    run = _run(
        "evaluate",
        folder / "good.txt",
        folder / "data.txt",
        "--baseline",
        folder / "bad.npy",
        "--metrics",
        "ndcg@10,map",
        "--json",
    )
    payload = json.loads(run.stdout)
    assert payload["comparisons"]["ndcg@10"]["difference"] > 0
    assert payload["comparisons"]["ndcg@10"]["randomization"] < 0.05


def test_evaluate_writes_the_value_of_each_list(folder, tmp_path) -> None:
    out = tmp_path / "values.tsv"
    run = _run("evaluate", folder / "good.txt", folder / "data.txt", "--per-list", out)
    assert run.returncode == 0, run.stderr
    lines = out.read_text().splitlines()
    assert lines[0].split("\t")[:2] == ["query_id", "ndcg@1"]
    assert len(lines) == 21


def test_evaluate_takes_a_trec_run_and_qrels(tmp_path) -> None:
    (tmp_path / "run.txt").write_text("1 Q0 a 1 3.5 x\n1 Q0 b 2 2.5 x\n2 Q0 c 1 1 x\n")
    (tmp_path / "qrels.txt").write_text("1 0 b 1\n1 0 z 1\n2 0 c 2\n")
    run = _run(
        "evaluate",
        tmp_path / "run.txt",
        tmp_path / "qrels.txt",
        "--metrics",
        "map,recall@5",
        "--convention",
        "trec_eval",
        "--json",
    )
    payload = json.loads(run.stdout)["metrics"]
    # Query 1: b at rank 2 of two relevant, one never retrieved; query 2: perfect.
    assert list(payload.values()) == pytest.approx([(0.25 + 1) / 2, (0.5 + 1) / 2])


def test_convert_goes_to_every_form_and_back(folder, tmp_path) -> None:
    original = pk.read(folder / "data.txt")
    for name in ("a.parquet", "a.arrow", "a.pkdata", "a.txt.gz"):
        run = _run("convert", folder / "data.txt", tmp_path / name, "--json")
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout)["documents"] == original.n_docs
        again = pk.read(tmp_path / name)
        assert np.array_equal(again.features, original.features)
        assert np.array_equal(again.labels, original.labels)


def test_an_error_in_the_data_is_one_line_and_exit_code_1(tmp_path) -> None:
    bad = tmp_path / "train.txt"
    bad.write_text("1 qid:1 1:0.5\n2 qid:1 0:0.5\n")
    run = _run("describe", bad)
    assert run.returncode == 1
    assert "train.txt:2: feature index 0; indices start at 1" in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_a_missing_file_is_one_line_and_exit_code_1(tmp_path) -> None:
    run = _run("describe", tmp_path / "nothing.txt")
    assert run.returncode == 1
    assert "nothing.txt" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_wrong_metric_is_exit_code_2(folder) -> None:
    run = _run("evaluate", folder / "good.txt", folder / "data.txt", "--metrics", "ndgc@5")
    assert run.returncode == 2
    assert "ndcg" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_wrong_number_of_scores_is_refused(folder, tmp_path) -> None:
    (tmp_path / "short.txt").write_text("1\n2\n")
    run = _run("evaluate", tmp_path / "short.txt", folder / "data.txt")
    assert run.returncode == 1
    assert "2 scores for the" in run.stderr


def test_a_score_that_is_no_number_is_named_with_its_line(folder, tmp_path) -> None:
    (tmp_path / "words.txt").write_text("1\nabc\n")
    run = _run("evaluate", tmp_path / "words.txt", folder / "data.txt")
    assert run.returncode == 1
    assert "words.txt:2: 'abc' is not a number" in run.stderr


def test_the_version_is_printed_by_the_module_too() -> None:
    command = [sys.executable, "-m", "plackett", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == f"plackett {pk.__version__}"


def test_quickstart_writes_a_report_and_prints_a_leaderboard(tmp_path) -> None:
    with mock.patch.dict(QUICKSTART_TREES, trees=20, patience=5):
        run = _run("quickstart", "--out", tmp_path / "out", "--lists", "60", "--json")
    assert run.returncode == 0, run.stderr
    payload = json.loads(run.stdout)
    assert payload["baseline"] == "lightgbm-lambdarank"
    assert len(payload["gains"]) == 5
    assert {"ndcg@1", "ndcg@5", "ndcg@10", "err@10", "map"} == set(payload["metrics"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http-equiv", "")
    assert json.loads((tmp_path / "out" / "results.json").read_text())["leaderboard"]["entries"]


def test_two_runs_are_compared_query_by_query(tmp_path) -> None:
    (tmp_path / "qrels").write_text("q1 0 a 1\nq1 0 b 0\nq2 0 c 2\nq2 0 d 0\nq3 0 e 1\nq3 0 f 0\n")
    (tmp_path / "a.run").write_text("q1 Q0 a 1 3 x\nq1 Q0 z 2 2 x\nq2 Q0 d 1 3 x\nq2 Q0 c 2 2 x\nq3 Q0 e 1 1 x\n")
    (tmp_path / "b.run").write_text("q1 Q0 b 1 3 y\nq1 Q0 a 2 2 y\nq2 Q0 w 1 3 y\nq2 Q0 c 2 2 y\nq3 Q0 k 1 1 y\n")
    command = ("evaluate", tmp_path / "a.run", tmp_path / "qrels", "--metrics", "mrr", "--json")
    run = _run(*command, "--baseline", tmp_path / "b.run")
    assert run.returncode == 0, run.stderr
    # Reciprocal ranks: 1, 1/2, 1 against 1/2, 1/2, 0.
    assert json.loads(run.stdout)["comparisons"]["mrr"]["difference"] == pytest.approx(1.5 / 3)
    (tmp_path / "c.run").write_text("q1 Q0 b 1 3 y\n")
    run = _run(*command, "--baseline", tmp_path / "c.run")
    assert run.returncode == 1
    assert "only" in run.stderr
    assert "'q2'" in run.stderr or "'q3'" in run.stderr


def test_a_convention_without_metrics_takes_those_it_has(folder) -> None:
    run = _run("evaluate", folder / "good.txt", folder / "data.txt", "--convention", "lightgbm", "--json")
    assert run.returncode == 0, run.stderr
    assert set(json.loads(run.stdout)["metrics"]) == {
        "ndcg@1:lightgbm",
        "ndcg@5:lightgbm",
        "ndcg@10:lightgbm",
        "map:lightgbm",
    }


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"\x00\x01junk", "junk.npy", "is not a .npy file with an array of numbers"),
        (b"", "empty.npy", "is not a .npy file with an array of numbers"),
        (b"1\nnan\n", "nan.txt", "nan.txt:2: 'nan' is not a number"),
        (b"1_0\n", "under.txt", "under.txt:1: '1_0' is not a number"),
        (b"", "empty.txt", "contains no scores"),
    ],
)
def test_scores_that_are_none_are_one_line_and_exit_code_1(
    folder, tmp_path, content: bytes, name: str, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    run = _run("evaluate", tmp_path / name, folder / "data.txt")
    assert run.returncode == 1
    assert message in run.stderr
    assert "Traceback" not in run.stderr


def test_a_terminal_that_knows_only_ascii_gets_the_table_all_the_same(folder) -> None:
    code = "from plackett.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code, "describe", str(folder / "data.txt")],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    )
    assert run.returncode == 0, run.stderr
    assert b"queries (lists)" in run.stdout


def test_a_target_that_cannot_be_written_is_named(folder, tmp_path) -> None:
    (tmp_path / "taken.txt").mkdir()
    run = _run("convert", folder / "data.txt", tmp_path / "taken.txt")
    assert run.returncode == 1
    assert "taken.txt" in run.stderr
    assert "a folder is there" in run.stderr
    assert "Traceback" not in run.stderr


def test_errors_speak_of_options_not_of_python(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:nan\n")
    run = _run("describe", tmp_path / "a.txt")
    assert run.returncode == 1
    assert "--missing nan" in run.stderr


@pytest.fixture(scope="module")
def model(folder):
    """A small model of the data set."""
    path = folder / "model.plackett"
    done = _run(
        *("train", folder / "data.txt", "--out", path, "--model", "xendcg-mart"),
        *("--set", "trees=5", "--set", "leaves=4", "--set", "min_documents=2", "--threads", 1),
    )
    assert done.returncode == 0, done.stderr
    assert "validation  ndcg@10 0." in done.stdout
    assert "xendcg-mart on 46 features" in done.stdout
    return path


def test_train_says_in_json_what_it_made(folder, tmp_path) -> None:
    done = _run(
        *("train", folder / "data.txt", "--out", tmp_path / "m", "--model", "listnet-linear"),
        *("--validation", folder / "data.txt", "--metric", "ndcg@1,ndcg@5", "--json"),
    )
    facts = json.loads(done.stdout)
    assert facts["recipe"] == "listnet-linear"
    assert facts["training"]["metric"] == ["ndcg@1", "ndcg@5"]
    assert facts["metrics"]["train"] == facts["metrics"]["validation"]
    assert pk.load(tmp_path / "m").recipe_name == "listnet-linear"


def test_train_cross_fits_and_goes_on_from_a_checkpoint(folder, tmp_path) -> None:
    command = (
        *("train", folder / "data.txt", "--model", "lambdamart", "--crossfit", 2),
        *("--set", "trees=3", "--set", "leaves=4", "--checkpoint", tmp_path / "fit"),
    )
    for name in ("one", "two"):
        assert _run(*command, "--out", tmp_path / name).returncode == 0
    one, two = ((tmp_path / name / "manifest.json").read_text() for name in ("one", "two"))
    assert one == two
    changed = _run(*command, "--set", "trees=4", "--out", tmp_path / "three")
    assert changed.returncode == 2
    assert "its trees is 3, here it is 4" in changed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "lambdamrt"), "Did you mean 'lambdamart'?"),
        (("--set", "trees"), "a setting is written key=value"),
        (("--set", "height=3"), "has no parameter 'height'"),
        (("--model", "umart", "--preset", "Z"), "no preset 'Z' of 'umart'. There are: D-ohsumed"),
    ],
)
def test_train_refuses_what_cannot_be_meant(folder, tmp_path, arguments, message) -> None:
    failed = _run("train", folder / "data.txt", "--out", tmp_path / "m", *arguments)
    assert failed.returncode == 2
    assert message in failed.stderr


def test_train_does_not_write_over_other_files(folder) -> None:
    failed = _run("train", folder / "data.txt", "--out", folder)
    assert failed.returncode == 2
    assert "folder with other files" in failed.stderr


def test_rank_writes_what_the_suffix_says(folder, model, tmp_path) -> None:
    data = pk.read(folder / "data.txt")
    scores = pk.load(model).predict(data)
    for name in ("s.txt", "s.npy", "r.tsv", "r.run", "r.parquet"):
        assert _run("rank", model, folder / "data.txt", "--out", tmp_path / name).returncode == 0
    assert np.array_equal(np.loadtxt(tmp_path / "s.txt"), scores)
    assert np.array_equal(np.load(tmp_path / "s.npy"), scores)
    lines = (tmp_path / "r.tsv").read_text().splitlines()
    assert lines[0] == "query_id\tdocument\trank\tscore"
    assert len(lines) == data.n_docs + 1
    run = (tmp_path / "r.run").read_text().splitlines()
    assert [line.split("\t")[:2] for line in lines[1:]] == [[line.split()[0], line.split()[2]] for line in run]
    assert pq.read_table(tmp_path / "r.parquet").column_names == lines[0].split("\t")


def test_rank_prints_the_top_of_each_list(folder, model) -> None:
    table = _run("rank", model, folder / "data.txt", "--top", 2)
    rows = [line.split("\t") for line in table.stdout.splitlines()[1:]]
    assert {row[2] for row in rows} == {"1", "2"}
    listed = json.loads(_run("rank", model, folder / "data.txt", "--top", 2, "--json").stdout)
    assert [str(entry["document"]) for entry in listed] == [row[1] for row in rows]
    failed = _run("rank", model, folder / "data.txt", "--top", 2, "--out", folder / "s.txt")
    assert failed.returncode == 2
    assert "--top only applies to .tsv and .parquet" in failed.stderr


def test_rank_needs_no_labels_in_a_table(folder, model, tmp_path) -> None:
    data = pk.read(folder / "data.txt")
    pk.write(data, tmp_path / "data.parquet")
    table = pq.read_table(tmp_path / "data.parquet").drop_columns("label")
    pq.write_table(table, tmp_path / "bare.parquet")
    done = _run("rank", model, tmp_path / "bare.parquet", "--out", tmp_path / "s.npy")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "s.npy"), pk.load(model).predict(data))


def test_evaluate_takes_models(folder, model) -> None:
    payload = json.loads(_run("evaluate", model, folder / "data.txt", "--json").stdout)
    data = pk.read(folder / "data.txt")
    expected = pk.evaluate(pk.load(model).predict(data), data, "ndcg@10")["ndcg@10"]
    assert payload["metrics"]["ndcg@10"] == expected
    against = _run("evaluate", model, folder / "data.txt", "--baseline", folder / "good.txt")
    assert "difference" in against.stdout


@pytest.fixture(scope="module")
def folds(folder):
    """Two folds, and the first one's validation lists in two shards."""
    parts = pk.split(pk.read(folder / "data.txt"), (0.25,) * 4)
    for number, (one, two, vali, test) in enumerate((parts, parts[::-1]), 1):
        path = folder / "folds" / f"Fold{number}"
        path.mkdir(parents=True)
        for name, part in {"train": pk.concat([one, two]), "vali": vali, "test": test}.items():
            pk.write(part, path / f"{name}.parquet")
    for name, part in zip("ab", pk.split(pk.read(folder / "folds/Fold1/vali.parquet"), (0.6, 0.4)), strict=True):
        pk.write(part, folder / f"{name}.parquet")
    return folder / "folds"


def test_commands_take_a_fold(folds, model, tmp_path) -> None:
    fold = folds / "Fold1"
    test = pk.read(fold / "test.parquet")
    assert json.loads(_run("evaluate", model, fold, "--json").stdout)["lists"] == test.n_lists
    assert json.loads(_run("rank", model, fold, "--out", tmp_path / "s.npy", "--json").stdout)["lists"] == test.n_lists
    exported = _run("export", model, "--to", "vespa", "--out", tmp_path / "m.json", "--data", fold)
    assert f"compared on {test.n_docs} documents" in exported.stdout
    assert json.loads(_run("convert", fold, tmp_path / "all.txt", "--json").stdout)["lists"] == 20
    assert json.loads(_run("convert", folds, tmp_path / "all.txt", "--json").stdout)["lists"] == 2 * test.n_lists
    assert "Begin with" in _run("recipes", "--for", fold).stdout
    refused = _run("evaluate", model, folds)
    assert refused.returncode == 2
    assert "has 2 folds; use one of them, for example" in refused.stderr


def test_options_take_shards(folds, folder, tmp_path) -> None:
    shards = [word for name in "ab" for word in ("--validation", folder / f"{name}.parquet")]
    command = ("train", folds / "Fold1/train.parquet", "--model", "listnet-linear", "--out", tmp_path / "m", "--json")
    by_shards, by_fold = _run(*command, *shards), _run(command[0], folds / "Fold1", *command[2:])
    assert json.loads(by_shards.stdout)["metrics"] == json.loads(by_fold.stdout)["metrics"]
