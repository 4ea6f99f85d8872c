"""What a new user gets wrong is answered in one line that says what to do."""

from __future__ import annotations

import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
import pytest

import plackett as pk
from plackett.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("messages")
    data = pk.synthetic("letor", n_lists=20, seed=1)
    pk.write(data, path / "data.txt")
    pk.write(data, path / "data.parquet")
    text = (path / "data.txt").read_text()
    (path / "wide.txt").write_text(text.replace(" 46:", " 99:"))
    pk.recipe("lambdamart", trees=3, leaves=4).fit(data).save(path / "model.plackett")
    (path / "semicolons.csv").write_text("qid;grade;bm25\n1;0;0.5\n1;1;0.7\n")
    (path / "headless.csv").write_text("1,0,0.5\n1,1,0.7\n")
    (path / "text.csv").write_text("qid,grade,bm25,shop\n1,0,0.5,x\n1,1,0.7,y\n")
    (path / "model.onnx").write_bytes(b"\x08\x07\x12\x08plackett")
    return path


@pytest.fixture
def fail(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)

    def run(*arguments: object, code: int | None = None) -> str:
        command = ["plackett", *map(str, arguments)]
        with mock.patch.object(sys, "argv", command), pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert end.value.code, out
        if code is not None:
            assert end.value.code == code, err
        assert "Traceback" not in err
        return " ".join(err.split())

    return run


TRAIN = ("train", "data.txt", "--out", "m.plackett")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ("compare", "data.txt", "--models", "lambdamart", "--jobs", "2", "--cluster", "local:2"),
            "--jobs 2 has no effect",
        ),
        (("tune", "data.txt", "--model", "lambdamart", "--jobs", "2", "--cluster", "auto"), "--jobs 2 has no effect"),
        (("compare", "data.txt", "--models", "lambdamart", "--threads", "2", "--cluster", "auto"), '"auto?threads=2"'),
        (("rank", "model.plackett", "wide.txt"), "above the 46 features of the model"),
        (("evaluate", "model.plackett", "wide.txt"), "above the 46 features of the model"),
        (("rank", "model.plackett", "wide.txt", "--n-features", "46"), "above --n-features 46"),
        (("describe", "model.plackett"), "describe it with: plackett inspect model.plackett"),
        (("inspect", "data.txt"), "plackett describe prints statistics of data"),
        (("import", "model.onnx", "--out", "x"), "these can be: LightGBM (text), XGBoost (JSON"),
        ((*TRAIN, "--set", "treees=5"), "treees"),
        ((*TRAIN, "--set", "objective.bet=1"), "Did you mean 'beta'"),
        ((*TRAIN, "--set", "trees"), "key=value, for example --set trees=200, got 'trees'"),
        ((*TRAIN, "--model", "lambda-mart"), "Did you mean 'lambdamart'"),
        ((*TRAIN, "--metric", "ncdg@5"), "Did you mean 'ndcg'"),
        ((*TRAIN, "--n-estimators", "5"), "use --set n_estimators=VALUE"),
        ((*TRAIN, "--set", "lightgbm=5x"), "--set lightgbm.max_bin=63"),
        ((*TRAIN, "--validation", "data.txt", "--validation-share", "0.1"), "validation data is given; leave it out"),
        ((*TRAIN, "--features", "a"), "--features names columns of a Parquet, Arrow or CSV file"),
        (("train", "semicolons.csv", "--out", "m"), "has one column, 'qid;grade;bm25'; columns are separated"),
        (("train", "headless.csv", "--out", "m"), "the first line must hold the names of the columns"),
        (("train", "text.csv", "--out", "m"), "take it as categories with --categorical, leave it out with --drop"),
        (("evaluate", "data.txt", "model.plackett"), "model.plackett is a model, and data are needed here"),
        (("compare", "data.txt", "--models", "umart", "--out", "model.plackett"), "which other files would damage"),
        (("quickstart", "--out", "data.txt"), "data.txt is a file; --out is the folder of the report"),
        (("verify", "nothing"), "there is no such file or directory"),
        (("export", "model.plackett", "--to", "vespas", "--out", "x"), "Did you mean 'vespa'"),
        (("compare", "data.txt", "--models", "x.plackett"), "x.plackett: does not exist"),
        (("compare", "data.txt", "--models", "lambdamart:leavs=3"), "leavs"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_a_mistake_is_answered_with_what_to_do(fail, command, message) -> None:
    assert message in fail(*command)


EXTRAS = {
    "torch": (*TRAIN, "--model", "urank"),
    "optuna": ("tune", "data.txt", "--model", "lambdamart"),
    "granian": ("serve", "model.plackett"),
    "starlette": ("serve", "model.plackett"),
    "msgspec": ("serve", "model.plackett"),
    "prometheus_client": ("serve", "model.plackett"),
    "onnx": ("export", "model.plackett", "--to", "onnx", "--out", "x.onnx"),
    "ray": (*TRAIN, "--cluster", "local:2"),
    "mlflow": ("compare", "data.txt", "--models", "lambdamart", "--mlflow", "sqlite:///x.db"),
    "psycopg": ("compare", "data.txt", "--models", "lambdamart", "--store", "postgresql://a@b/c"),
}


@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_library_is_one_line_with_a_command(fail, monkeypatch, module) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = fail(*EXTRAS[module], code=2)
    assert "which is not installed: python -m pip install '" in message
    assert message.count("error:") == 1


def test_columns_are_read_in_the_order_of_the_model(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["qid,grade,a,b,note"] + [f"{i // 5},{i % 3},{i % 7},{i % 3},n{i}" for i in range(50)]
    (tmp_path / "train.csv").write_text("\n".join(rows))
    swapped = [",".join((q, g, note, b, a)) for q, g, a, b, note in (row.split(",") for row in rows)]
    (tmp_path / "test.csv").write_text("\n".join(swapped))
    settings = ("--model", "lambdamart", "--set", "trees=3", "--set", "min_documents=1", "--validation-share", "0")
    train = ("train", "train.csv", "--drop", "note", "--out", "m.plackett", *settings)
    for command in (train, ("rank", "m.plackett", "test.csv", "--out", "s.npy")):
        with mock.patch.object(sys, "argv", ["plackett", *command]), pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, capsys.readouterr()
    expected = pk.load("m.plackett").predict(pk.read("train.csv", drop=["note"]))
    assert np.array_equal(np.load("s.npy"), expected)


def test_a_run_is_evaluated_on_a_data_set(folder, capsys, monkeypatch) -> None:
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> str:
        with mock.patch.object(sys, "argv", ["plackett", *arguments]), pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    metrics = ("--metrics", "ndcg@10,map", "--json")
    by_model = run("evaluate", "model.plackett", "data.txt", *metrics)
    run("rank", "model.plackett", "data.txt", "--out", "rows.run")
    by_rows = run("evaluate", "rows.run", "data.txt", *metrics)
    assert "ndcg@10" in by_rows
    # With document ids in the data, the run names them.
    lines = (folder / "data.txt").read_text().splitlines()
    ids = [f"{line.split(' #')[0]} # docid = D{i}" for i, line in enumerate(lines)]
    (folder / "ids.txt").write_text("\n".join(ids) + "\n")
    run("rank", "model.plackett", "ids.txt", "--out", "ids.run")
    assert " D" in (folder / "ids.run").read_text().splitlines()[0]
    by_ids = run("evaluate", "ids.run", "ids.txt", *metrics)
    assert "ndcg@10" in by_ids
    assert "ndcg@10" in by_model


def test_a_checkpoint_of_another_fit_says_what_differs(fail, folder) -> None:
    data = pk.read(folder / "data.txt")
    parts = pk.split(data, (0.8, 0.2))
    ranker = pk.recipe("lambdamart", trees=3)
    ranker.fit(*parts, metric="ndcg@10", checkpoint=folder / "state")
    message = fail(*TRAIN, "--model", "lambdamart", "--checkpoint", "state", "--metric", "map",
                   "--set", "trees=4", "--set", "objective=xendcg")  # fmt: skip
    assert "its trees is 3, here it is 4" in message
    assert "its objective is lambdarank(" in message
    assert "it selects by ndcg@10, this fit by map" in message
    other = pk.synthetic("letor", n_lists=5, seed=3)
    with pytest.raises(pk.UsageError, match=r"its training data are 16 lists .* these are 5 lists"):
        pk.recipe("lambdamart", trees=3).fit(other, checkpoint=folder / "state")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "interrupted; nothing was kept. With --checkpoint FOLDER, the same command resumes an interrupted fit."),
        (("--checkpoint", "kept"), "is kept in kept: the same command resumes it."),
    ],
)
def test_ctrl_c_says_what_was_kept(fail, folder, monkeypatch, options, message) -> None:
    def interrupt(*_: object, **__: object) -> None:
        (folder / "kept" / "step-1").mkdir(parents=True, exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(pk.TreeRanker, "fit", interrupt)
    assert message in fail(*TRAIN, *options, code=130)


def test_ctrl_c_counts_the_trials_that_are_kept(fail, monkeypatch, tmp_path) -> None:
    fit = pk.LinearRanker.fit
    calls: list[int] = []

    def interrupt_second(self: pk.LinearRanker, *arguments: object, **options: object) -> object:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(pk.LinearRanker, "fit", interrupt_second)
    models = "listnet-linear:C=1,listnet-linear:C=2,listnet-linear:C=3"
    command = ("compare", "data.txt", "--models", models, "--out", tmp_path / "out")
    message = fail(*command, code=130)
    assert "interrupted; 1 of 3 trials are kept in" in message
    assert "the same command runs the others." in message


def test_ctrl_c_elsewhere_says_that_nothing_was_written(fail, monkeypatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("plackett.cli.data.describe_dataset", interrupt)
    assert "interrupted; nothing was written." in fail("describe", "data.txt", code=130)


def test_scores_of_another_program_are_compared(folder, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(folder)
    data = pk.read("data.txt")
    np.savetxt("scores.txt", np.arange(data.n_docs))
    models = "listnet-linear:C=1,model.plackett,scores.txt"
    command = ["plackett", "compare", "data.txt", "--models", models, "--out", str(tmp_path / "o")]
    with mock.patch.object(sys, "argv", command), warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as end:
            main()
    out, err = capsys.readouterr()
    assert not end.value.code, err
    assert all(name in out for name in ("listnet-linear:C=1", "model.plackett", "scores.txt"))
    assert "model.plackett is used as it was saved" in " ".join(err.split())


def test_the_command_runs_as_a_module(folder) -> None:
    command = [sys.executable, "-m", "plackett", "metrics"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 0
    assert "ndcg" in run.stdout
