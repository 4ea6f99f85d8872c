"""Warnings reach the people who run commands, in the words of the command line."""

from __future__ import annotations

import csv
import io
import json
import pickle
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from unittest import mock

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import ConvergenceWarning, DataError, DataWarning, Message, Parameter, Setting, message_of
from plackett.base.files import tsv_cell
from plackett.cli import main
from plackett.cli.console import count_convergence_warnings, use_option_names
from plackett.data.clicks import simulate
from plackett.data.clicks.log import write_clicks


@contextmanager
def _all_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield


def _run(*arguments: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["plackett", *map(str, arguments)]),
        _all_warnings(),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


@pytest.fixture
def clicked(tmp_path):
    web = pk.synthetic("web", n_lists=12, seed=1)
    ids = np.arange(web.n_docs)
    data = pk.Dataset.from_arrays(web.features, web.labels, web.query_ids, document_ids=ids)
    scores = data.features[:, 3] / data.features[:, 3].std()
    log = simulate(data, "ai2018", impressions=30, scores=scores, temperature=1.0, top=5)
    write_clicks(log, tmp_path / "log.csv")
    pk.write(data, tmp_path / "documents.parquet")
    return tmp_path


def test_estimates_that_have_not_settled_are_warned_of_with_the_remedy(clicked) -> None:
    options = ("--features", clicked / "documents.parquet", "--out", clicked / "train.parquet")
    code, _, err = _run("clicks", clicked / "log.csv", *options, "--iterations", 1)
    assert code == 0
    assert "warning: expectation maximization of propensities has not converged after 1" in err
    assert "raise --iterations, or pool low positions" in err
    assert "with --deepest." in err
    code, _, err = _run("clicks", clicked / "log.csv", *options, "--iterations", 9, "--propensities", "none")
    assert code == 2
    assert "--iterations only applies to --propensities em" in err


def test_training_on_impressions_holds_whole_queries_out(clicked) -> None:
    train = clicked / "train.parquet"
    options = ("--features", clicked / "documents.parquet", "--out", train, "--by", "impression")
    code, _, err = _run("clicks", clicked / "log.csv", *options)
    assert code == 0, err
    data = pk.read(train)
    kept, held_out = pk.split(data, (0.8, 0.2))
    assert set(kept.groups).isdisjoint(held_out.groups)
    # With a single query there is nothing to hold out.
    first = data.select(np.flatnonzero(data.groups == data.groups[0]))
    pk.write(first, clicked / "one.parquet")
    code, _, err = _run("train", clicked / "one.parquet", "--out", clicked / "model.plackett")
    assert code == 1
    assert "error: 1 group is too few for the shares" in err


def test_a_solver_that_stops_early_is_told_once(tmp_path) -> None:
    data = tmp_path / "data.parquet"
    pk.write(pk.synthetic("letor", n_lists=30, seed=0), data)
    settings = ("--set", "max_iterations=1", "--set", "C=10")
    code, _, err = _run("train", data, "--out", tmp_path / "m.plackett", "--model", "listnet-linear", *settings)
    assert code == 0, err
    assert err.count("warning:") == 1
    assert "--set max_iterations=" in err
    for jobs in (1, 2):
        out = ("--out", tmp_path / str(jobs), "--protocol", "folds:3", "--jobs", jobs)
        code, _, err = _run("compare", data, "--models", "listnet-linear", *out, *settings)
        assert code == 0, err
        assert err.count("warning:") == 1
        assert "The same in 2 more fits." in err


def test_warnings_of_libraries_are_not_shown(capsys) -> None:
    with count_convergence_warnings():
        warnings.warn("for developers", DeprecationWarning, stacklevel=1)
        warnings.warn("for users", DataWarning, stacklevel=1)
        warnings.warn("C=1: stopped", ConvergenceWarning, stacklevel=1)
        warnings.warn("C=2: stopped", ConvergenceWarning, stacklevel=1)
    shown = capsys.readouterr().err
    assert "developers" not in shown
    assert "warning: for users" in shown
    assert "warning: C=1: stopped The same in 1 more fit." in shown


@pytest.mark.parametrize(
    ("parameter", "python", "option"),
    [
        (Parameter("label"), "label=", "--label"),
        (Parameter("n_features", 46), "n_features=46", "--n-features 46"),
        (Parameter("strict", True), "strict=True", "--strict"),
        (Parameter("missing", "nan"), 'missing="nan"', "--missing nan"),
        (Parameter("feature_names"), "feature_names=", "--names"),
        (Parameter("module"), "module=", "module="),
        (Setting("C"), "C", "--set C=..."),
        (Setting("clip", 5.0), "clip=5.0", "--set clip=5.0"),
        (Setting("transforms", ("standard",)), 'transforms=("standard",)', "--set 'transforms=[\"standard\"]'"),
    ],
)
def test_a_parameter_in_a_message_is_shown_as_its_option(parameter, python, option) -> None:
    message = Message("choose with ", parameter, ".")
    assert message == f"choose with {python}."
    assert use_option_names(message) == f"choose with {option}."


def test_a_message_keeps_its_parameters_on_the_way() -> None:
    message = Message("there is no column; choose with ", Parameter("label"), ".")
    error = DataError(DataError(message).message, path="a.parquet")
    assert str(error) == "a.parquet: there is no column; choose with label=."
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert use_option_names(message_of(one)).endswith("choose with --label.")
    assert use_option_names("label= is text here") == "label= is text here"


def test_a_metric_in_which_no_list_counts_says_so(tmp_path) -> None:
    rows = "".join(f"0 qid:{q} 1:{d}\n" for q in (1, 2) for d in range(3))
    (tmp_path / "data.txt").write_text(rows)
    (tmp_path / "scores.txt").write_text("1\n2\n3\n" * 2)
    command = ("evaluate", tmp_path / "scores.txt", tmp_path / "data.txt", "--metrics", "map,mrr")
    code, out, err = _run(*command, "--convention", "papers")
    assert code == 0, err
    assert "nan" not in out
    assert "warning: no list counts in map, mrr" in err
    _, out, _ = _run(*command, "--convention", "papers", "--json")
    assert json.loads(out)["metrics"] == {"map": None, "mrr": None}


@pytest.mark.parametrize("name", ["plain", "a\tb", 'a "b"', "two\nlines", "<script>", ""])
def test_cells_are_read_back_as_they_were(name) -> None:
    text = "\t".join([tsv_cell(name), tsv_cell(7)]) + "\n"
    assert next(csv.reader(io.StringIO(text), delimiter="\t")) == [name, "7"]


def test_the_notice_of_compilation_is_one_line_in_a_pipe(capsys, monkeypatch) -> None:
    from rich.console import Console

    from plackett.cli import console

    monkeypatch.setattr(console, "ERR", Console(stderr=True))
    for count in (1, 2, 3):
        with console.compilation_notice(count):
            pass
    assert capsys.readouterr().err.count("compiling kernels, once after installation") == 1


def test_the_notice_of_compilation_appears_below_a_progress_bar(monkeypatch) -> None:
    import io
    import time

    from rich.console import Console

    from plackett.cli import console

    screen = io.StringIO()
    monkeypatch.setattr(console, "ERR", Console(file=screen, force_terminal=True))
    with console.step_progress() as progress:
        progress("fitting", 1, 2)
        with console.compilation_notice(5):
            time.sleep(0.3)  # the bar is drawn ten times a second
    assert "(5 so far)" in screen.getvalue()


def test_warnings_of_a_run_that_fails_are_shown(capsys) -> None:
    def run() -> None:
        with count_convergence_warnings():
            warnings.warn("a label is odd", DataWarning, stacklevel=1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert "a label is odd" in capsys.readouterr().err
