from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

torch = pytest.importorskip("torch")

from plackett.base.errors import DataError, UsageError  # noqa: E402
from plackett.data.dataset import Dataset  # noqa: E402
from plackett.metrics import evaluate  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker, recipe  # noqa: E402
from plackett.models.fit_context import LEXICOGRAPHIC, is_better  # noqa: E402
from plackett.objectives import Stochastic, UMart  # noqa: E402

QUICK = {"layers": (16, 8), "epochs": 4, "batch_lists": 4, "learning_rate": 0.01, "threads": 1}
KINDS_OF_NET = [
    {},
    {"dropout": 0.3, "batch_norm": 0.9},
    {"attention": 1, "heads": 2},
    {"group_size": 2},
    {"recurrent": "gru"},
    {"optimizer": "adagrad", "schedule": "cosine"},
    {"batch_lists": None, "batch_documents": 100},
]


def _weights(ranker):
    return [net.state_dict() for net in ranker.networks_]


def _equal(first, second) -> bool:
    return len(first) == len(second) and all(
        set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("settings", KINDS_OF_NET, ids=str)
def test_the_same_seed_gives_the_same_weights_whatever_pytorch_has_drawn(settings, parts) -> None:
    train, validation, _ = parts
    ranker = NeuralRanker(**QUICK | settings, seed=5)
    torch.manual_seed(1)
    first = _weights(ranker.fit(train, validation))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = _weights(ranker.fit(train, validation))
    assert _equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)
    assert not _equal(first, _weights(ranker.set_params(seed=6).fit(train, validation)))


@pytest.mark.parametrize("settings", KINDS_OF_NET, ids=str)
def test_every_kind_of_net_ranks_better_than_constant_scores(settings, parts) -> None:
    train, validation, test = parts
    scores = NeuralRanker(**QUICK | settings).fit(train, validation).predict(test)
    nothing = evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    assert evaluate(scores, test, "ndcg@10")["ndcg@10"] > nothing + 0.05


def test_permuting_rows_changes_no_weight(parts) -> None:
    train = parts[0]
    ids = train.query_ids
    shuffle = np.random.default_rng(0).permutation(train.n_docs)
    other = Dataset.from_arrays(
        train.features[shuffle], train.labels[shuffle], ids[shuffle], feature_names=train.feature_names
    )
    ranker = NeuralRanker(**QUICK)
    assert _equal(_weights(ranker.fit(train)), _weights(ranker.fit(other)))


def test_the_best_weights_on_validation_are_kept(parts) -> None:
    train, validation, _ = parts
    ranker = NeuralRanker(**QUICK | {"epochs": 8, "learning_rate": 0.05}, follow_train=True)
    ranker.fit(train, validation, metric="ndcg@3")
    curve = ranker.curves_["validation"]["ndcg@3"]
    followed = ranker.curves_["train"]["ndcg@3"]
    assert followed[int(np.argmax(curve))] == pytest.approx(evaluate(ranker.predict(train), train, "ndcg@3")["ndcg@3"])
    values = evaluate(ranker.predict(validation), validation, "ndcg@3")["ndcg@3"]
    assert len(curve) == len(ranker.curves_["train"]["loss"]) == 8
    assert values == pytest.approx(max(curve), abs=1e-9)


def test_several_metrics_are_compared_in_their_order(parts) -> None:
    train, validation, _ = parts
    ranker = NeuralRanker(**QUICK | {"epochs": 8}).fit(train, validation, metric=LEXICOGRAPHIC)
    curves = ranker.curves_["validation"]
    chosen = tuple(evaluate(ranker.predict(validation), validation, list(curves)).values())
    for epoch in zip(*curves.values(), strict=True):
        assert not is_better(epoch, [value + 1e-9 for value in chosen])


def test_training_stops_when_validation_stops_improving(parts) -> None:
    train, validation, _ = parts
    ranker = NeuralRanker(**QUICK | {"epochs": 200, "learning_rate": 0.05, "patience": 3})
    ranker.fit(train, validation)
    curve = ranker.curves_["validation"]["ndcg@10"]
    assert len(curve) < 200
    assert int(np.argmax(curve)) == len(curve) - 1 - 3


def test_each_epoch_is_reported(parts) -> None:
    told = []
    ranker = NeuralRanker(**QUICK)
    ranker.fit(parts[0], parts[1], progress=lambda *what: told.append(what))
    assert [(done, total) for _, done, total in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert "loss" in told[-1][0]
    assert "validation ndcg@10" in told[-1][0]


def test_sum_and_mean_of_list_losses_differ_by_the_number_of_lists(parts) -> None:
    train = parts[0]
    settings = QUICK | {"optimizer": "adagrad", "epochs": 1, "batch_lists": 1}
    mean, total = (_weights(NeuralRanker(**settings, reduction=how).fit(train)) for how in ("mean", "sum"))
    assert _equal(mean, total)
    several = settings | {"batch_lists": 5}
    mean, total = (_weights(NeuralRanker(**several, reduction=how).fit(train)) for how in ("mean", "sum"))
    assert not _equal(mean, total)


def test_an_objective_without_a_value_can_be_trained(parts) -> None:
    train, validation, test = parts
    told = []
    ranker = NeuralRanker(objective=UMart(window=2), **QUICK)
    ranker.fit(train, validation, progress=lambda text, *_: told.append(text))
    assert told[-1].startswith("epochs, validation ndcg@10")
    assert np.isnan(ranker.curves_["train"]["loss"]).all()
    nothing = evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    assert evaluate(ranker.predict(test), test, "ndcg@10")["ndcg@10"] > nothing + 0.05


def test_noise_is_fresh_at_each_step(parts) -> None:
    train = parts[0]
    loss = Stochastic("approxndcg", samples=1)
    frozen = NeuralRanker(objective=loss, **QUICK | {"learning_rate": 1e-12}).fit(train)
    assert len(set(frozen.curves_["train"]["loss"])) == 4


def test_sparse_features_give_nearly_the_same_scores(parts) -> None:
    train = parts[0]
    sparse = train.with_features(csr_array(train.features))
    settings = QUICK | {"transforms": ()}
    a = NeuralRanker(**settings).fit(train).predict(train)
    b = NeuralRanker(**settings).fit(sparse).predict(sparse)
    assert a == pytest.approx(b, rel=1e-4, abs=1e-5)


def test_a_user_module_is_copied_and_trained(parts) -> None:
    train, validation, test = parts
    ours = torch.nn.Sequential(torch.nn.Linear(46, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    ranker = NeuralRanker(module=ours, **QUICK).fit(train, validation)
    nothing = evaluate(np.zeros(test.n_docs), test, "ndcg@10")["ndcg@10"]
    assert evaluate(ranker.predict(test), test, "ndcg@10")["ndcg@10"] > nothing + 0.05
    assert _equal([before], [ours.state_dict()])


def test_a_function_that_makes_a_module_starts_from_the_seed(parts) -> None:
    ranker = NeuralRanker(module=lambda n: torch.nn.Linear(n, 1), **QUICK)
    assert _equal(_weights(ranker.fit(parts[0])), _weights(ranker.fit(parts[0])))


def test_a_module_with_more_than_one_score_is_refused(parts) -> None:
    with pytest.raises(ValueError, match="must return one score per document"):
        NeuralRanker(module=torch.nn.Linear(46, 2), **QUICK).fit(parts[0])


def test_diverging_weights_are_reported(parts) -> None:
    ranker = NeuralRanker(**QUICK | {"learning_rate": 1e30, "activation": "silu"})
    with pytest.raises(UsageError, match=r"diverged after 1 steps.* smaller learning_rate than 1e"):
        ranker.fit(parts[0])


def test_features_too_large_for_float32_are_told_from_steps_too_large(parts) -> None:
    train = parts[0].with_features(parts[0].features * np.float32(3e38))
    with pytest.raises(UsageError, match=r"before its first step.*transforms=\(\"standard\",\)"):
        NeuralRanker(**QUICK, transforms=()).fit(train)


def test_data_with_one_level_of_labels_are_refused() -> None:
    data = Dataset.from_arrays(np.ones((4, 2)), np.ones(4), [0, 0, 1, 1])
    with pytest.raises(DataError, match="no list has two levels of labels"):
        NeuralRanker(transforms=()).fit(data)


def test_without_pytorch_the_command_to_install_it_is_given(parts, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="the extra 'neural'"):
        NeuralRanker().fit(parts[0])


def test_further_nets_are_kept_only_while_validation_improves(parts) -> None:
    train, validation, _ = parts
    ranker = BoostedNeuralRanker(**QUICK, learners=3, shrinkage=0.5).fit(train, validation)
    curve = ranker.curves_["validation"]["ndcg@10"]
    ends = np.cumsum(ranker.epochs_)
    best = [max(part) for part in np.split(np.array(curve), ends[:-1])]
    kept = len(ranker.networks_)
    assert all(b > a for a, b in pairwise(best[:kept]))
    assert len(ranker.epochs_) in (kept, kept + 1)
    values = evaluate(ranker.predict(validation), validation, "ndcg@10")["ndcg@10"]
    assert values == pytest.approx(best[kept - 1], abs=1e-9)


def test_progress_never_goes_back_from_one_net_to_the_next(parts) -> None:
    told = []
    ranker = BoostedNeuralRanker(**QUICK, learners=2)
    ranker.fit(parts[0], progress=lambda _, done, total: told.append((done, total)))
    assert told == [(epoch, 8) for epoch in range(1, 9)]


def test_a_further_net_fits_the_negative_gradient_of_the_ones_before(parts) -> None:
    train = parts[0]
    settings = QUICK | {"epochs": 25, "learning_rate": 0.01, "layers": (64, 32)}
    one = NeuralRanker(**settings).fit(train).predict(train)
    two = BoostedNeuralRanker(**settings, learners=2).fit(train).predict(train)
    from plackett.objectives import objective

    target = -objective("urank").evaluate(one, train.labels, train.offsets).gradient
    assert np.corrcoef(two - one, target)[0, 1] > 0.5


def test_urboost_corrects_its_recurrent_net_with_plain_ones(parts) -> None:
    train = parts[0]
    ranker = recipe("urboost", **QUICK, learners=2).fit(train)
    kinds = [type(net).__name__ for net in ranker.networks_]
    assert kinds == ["LevelScorer", "DocumentScorer"]


@pytest.mark.parametrize(("name", "value"), [("learners", 0), ("shrinkage", -1.0)])
def test_numbers_of_boosting_are_checked(name, value, parts) -> None:
    with pytest.raises(UsageError, match=f"{name} must be a positive"):
        BoostedNeuralRanker(**QUICK, **{name: value}).fit(parts[0])
