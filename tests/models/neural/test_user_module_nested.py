from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plackett.base.errors import UsageError  # noqa: E402
from plackett.models import BoostedNeuralRanker, CrossFit, NeuralRanker, load  # noqa: E402
from user_modules import Buffered, Tied  # noqa: E402

QUICK = {"epochs": 2, "batch_lists": 4, "threads": 1, "learning_rate": 0.01}


class _KilledError(Exception):
    pass


@pytest.mark.parametrize("kind", [NeuralRanker, BoostedNeuralRanker])
@pytest.mark.parametrize("module", [Tied, Buffered(46)], ids=["function", "module"])
def test_members_with_a_user_module_are_loaded(kind, module, parts, tmp_path) -> None:
    ranker = CrossFit(kind(module=module, **QUICK), folds=2).fit(parts[0])
    ranker.save(tmp_path / "model")
    loaded = load(tmp_path / "model", module=module)
    assert loaded.ranker.module is module
    assert np.array_equal(loaded.predict(parts[2]), ranker.predict(parts[2]))


def test_without_the_module_its_name_is_told(parts, tmp_path) -> None:
    CrossFit(NeuralRanker(module=Tied, **QUICK), folds=2).fit(parts[0]).save(tmp_path / "model")
    with pytest.raises(UsageError, match="weights of 'Tied', a user-supplied module"):
        load(tmp_path / "model")


def test_a_cross_fit_goes_on_from_members_that_are_finished(parts, tmp_path) -> None:
    def progress(text, *_) -> None:
        if text.startswith("member 2"):
            raise _KilledError

    def ranker(module=Tied) -> CrossFit:
        return CrossFit(NeuralRanker(module=module, **QUICK), folds=3)

    with pytest.raises(_KilledError):
        ranker().fit(parts[0], checkpoint=tmp_path / "state", progress=progress)
    assert (tmp_path / "state" / "member-0").is_dir()
    with pytest.raises(UsageError, match="belongs to another fit"):
        ranker(Buffered).fit(parts[0], checkpoint=tmp_path / "state")
    resumed = ranker().fit(parts[0], checkpoint=tmp_path / "state")
    assert np.array_equal(resumed.predict(parts[2]), ranker().fit(parts[0]).predict(parts[2]))
