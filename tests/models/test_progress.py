"""Callbacks, status lines and learning curves of fits."""

from __future__ import annotations

import io

import numpy as np
import pytest

from plackett import CrossFit, load, recipe, split, synthetic
from plackett.base.errors import UsageError
from plackett.models import LinearRanker, NeuralRanker, StumpRanker, TreeRanker, ensembles
from plackett.models.fit_context import LogLines, NotebookLine, StatusLine, StopFit

TRAIN, VALIDATION, TEST = split(synthetic("letor", n_lists=60, seed=1), (0.5, 0.2, 0.3), seed=0)
NET = {"layers": (8,), "epochs": 6, "learning_rate": 0.01, "threads": 1}
RANKERS = {
    "trees": TreeRanker(trees=8, leaves=4, threads=1),
    "stumps": StumpRanker(rounds=8),
    "net": NeuralRanker(**NET),
    "boosted": recipe("uboost", **NET, learners=2),
    "linear": LinearRanker(C=(0.1, 1.0, 10.0)),
}


@pytest.mark.parametrize("name", RANKERS)
def test_callbacks_see_each_step_and_its_metrics(name) -> None:
    steps = []
    ranker = RANKERS[name].clone()
    ranker.fit(TRAIN, VALIDATION, "ndcg@10", callbacks=steps.append)
    curve = ranker.curves_["validation"]["ndcg@10"]
    assert [step.step for step in steps] == list(range(1, len(curve) + 1))
    assert [step.metrics["validation"]["ndcg@10"] for step in steps] == curve
    assert 1 <= ranker.best_step_ <= len(curve)
    if name != "boosted":  # a later net counts only if it is better
        assert curve[ranker.best_step_ - 1] == max(curve)


@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize("raises", [False, True])
def test_a_callback_may_end_a_fit_and_the_best_model_is_kept(name, raises) -> None:
    def stop(step):
        if step.step >= 2 and raises:
            raise StopFit
        return step.step >= 2

    ranker = RANKERS[name].clone().fit(TRAIN, VALIDATION, callbacks=[stop])
    (curve,) = ranker.curves_["validation"].values()
    assert len(curve) == 2
    assert ranker.best_step_ <= 2
    assert np.isfinite(ranker.predict(TEST)).all()


def test_other_exceptions_of_a_callback_pass_through() -> None:
    def fail(step):
        raise RuntimeError(step.step)

    ranker = RANKERS["trees"].clone()
    with pytest.raises(RuntimeError, match="1"):
        ranker.fit(TRAIN, callbacks=fail)
    assert ranker.n_features_ is None


def test_callbacks_reach_the_members_of_a_crossfit() -> None:
    steps = []
    ranker = CrossFit(TreeRanker(trees=3, leaves=4, threads=1), folds=2)
    ranker.fit(TRAIN, callbacks=steps.append)
    assert [step.step for step in steps] == [1, 2, 3, 1, 2, 3]
    assert list(ranker.curves_) == ["member 1", "member 2"]
    assert ranker.best_step_ is None


@pytest.mark.parametrize("name", RANKERS)
def test_curves_and_the_best_step_are_saved(name, tmp_path) -> None:
    ranker = RANKERS[name].clone().fit(TRAIN, VALIDATION)
    ranker.save(tmp_path / "m.plackett")
    back = load(tmp_path / "m.plackett")
    assert back.curves_["validation"] == ranker.curves_["validation"]
    assert back.best_step_ == ranker.best_step_
    assert back.importance() == ranker.importance()


def test_nothing_is_printed_by_default(capfd) -> None:
    RANKERS["trees"].clone().fit(TRAIN)
    assert capfd.readouterr() == ("", "")


def test_verbose_prints_lines_where_there_is_no_terminal(capfd) -> None:
    RANKERS["trees"].clone().fit(TRAIN, VALIDATION, "ndcg@5", verbose=3)
    lines = capfd.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["[3/8]", "[6/8]", "[8/8]"]
    assert "validation ndcg@5" in lines[0]
    RANKERS["trees"].clone().fit(TRAIN, verbose=True)
    assert len(capfd.readouterr().err.splitlines()) == 8
    with pytest.raises(UsageError, match="verbose must be"):
        RANKERS["trees"].clone().fit(TRAIN, verbose="yes")


def test_a_status_line_is_written_over() -> None:
    stream = io.StringIO()
    line = StatusLine(stream)
    line("trees, a long text", 1, 2)
    line("trees", 2, 2)
    line.close()
    first, last = stream.getvalue().split("\r")[1:]
    assert "1/2 trees, a long text" in first
    assert last.rstrip().endswith("2/2 trees")
    assert len(last.rstrip("\n")) == len(first)
    silent = io.StringIO()
    LogLines(silent, 1).close()
    StatusLine(silent).close()
    assert silent.getvalue() == ""


def test_a_notebook_keeps_one_output(monkeypatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown = []

    class Handle:
        def update(self, content, **_):
            shown[-1] = content["text/plain"]

    monkeypatch.setattr(display, "display", lambda content, **_: shown.append(content["text/plain"]) or Handle())
    stream = io.StringIO()
    line = NotebookLine(stream)
    line("trees", 1, 2)
    line("trees", 2, 2)
    line.close()
    assert [text.split()[1:] for text in shown] == [["2/2", "trees"]]
    assert stream.getvalue() == ""
    NotebookLine(stream).close()
    assert len(shown) == 1


@pytest.mark.parametrize("kind", ["CatBoostRanker", "XGBoostRanker"])
def test_rankers_of_other_libraries_are_stopped_too(kind) -> None:
    steps = []

    def stop(step):
        steps.append(step)
        return step.step == 2

    ranker = getattr(ensembles, kind)(n_estimators=6, random_state=1, n_jobs=1)
    ranker.fit(TRAIN, VALIDATION, callbacks=stop)
    assert [step.step for step in steps] == [1, 2]
    assert 1 <= ranker.ensemble_.n_trees <= 2
    assert all("validation" in step.metrics for step in steps)
    assert len({ranker, ranker.clone()}) == 2
    assert ranker.importance_shares().sum() == pytest.approx(1.0)
