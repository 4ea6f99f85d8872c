from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from plackett.base.errors import DataError, UsageError  # noqa: E402
from plackett.metrics import evaluate  # noqa: E402
from plackett.models import BoostedNeuralRanker, NeuralRanker, load  # noqa: E402
from plackett.models.artifact import seal  # noqa: E402
from user_modules import MAKERS, Tied, dropping  # noqa: E402

QUICK = {"epochs": 2, "batch_lists": 4, "threads": 1, "learning_rate": 0.01}


def _made(maker):
    torch.manual_seed(5)
    return maker(46)


@pytest.mark.parametrize("maker", MAKERS)
def test_what_was_saved_scores_the_same_to_the_bit(maker, parts, tmp_path) -> None:
    for place, module in enumerate((_made(maker), maker)):
        ranker = NeuralRanker(module=module, **QUICK).fit(parts[0], parts[1])
        ranker.save(tmp_path / f"model-{place}")
        loaded = load(tmp_path / f"model-{place}", module=module)
        assert np.array_equal(loaded.predict(parts[2]), ranker.predict(parts[2]))
        assert loaded.module is module
        loaded.save(tmp_path / "again")
        again = load(tmp_path / "again", module=maker)
        assert np.array_equal(again.predict(parts[2]), ranker.predict(parts[2]))


@pytest.mark.parametrize("maker", MAKERS)
def test_a_module_is_trained_and_not_changed(maker, parts) -> None:
    module = _made(maker)
    before = {name: str(value) for name, value in module.state_dict().items()}
    settings = QUICK | {"epochs": 6, "learning_rate": 0.03}
    ranker = NeuralRanker(module=module, **settings).fit(parts[0], parts[1])
    assert {name: str(value) for name, value in module.state_dict().items()} == before
    nothing = evaluate(np.zeros(parts[2].n_docs), parts[2], "ndcg@10")["ndcg@10"]
    assert evaluate(ranker.predict(parts[2]), parts[2], "ndcg@10")["ndcg@10"] > nothing + 0.05


def test_tied_weights_are_trained_as_one_and_stay_tied(parts, tmp_path) -> None:
    ranker = NeuralRanker(module=Tied, **QUICK).fit(parts[0])
    ranker.save(tmp_path / "model")
    for item in (ranker, load(tmp_path / "model", module=Tied)):
        net = item.networks_[0].net
        assert net.again.weight is net.middle.weight


def test_all_nets_of_a_boosted_model_come_back(parts, tmp_path) -> None:
    ranker = BoostedNeuralRanker(module=dropping, **QUICK, learners=3).fit(parts[0])
    ranker.save(tmp_path / "model")
    loaded = load(tmp_path / "model", module=dropping)
    assert len(loaded.networks_) == 3
    assert np.array_equal(loaded.predict(parts[2]), ranker.predict(parts[2]))


def test_a_loaded_model_can_be_fitted_again(parts, tmp_path) -> None:
    first = NeuralRanker(module=Tied, **QUICK).fit(parts[0])
    first.save(tmp_path / "model")
    again = load(tmp_path / "model", module=Tied).fit(parts[0])
    assert np.array_equal(again.predict(parts[2]), first.predict(parts[2]))


def test_the_file_describes_the_module_and_holds_no_code(parts, tmp_path) -> None:
    NeuralRanker(module=_made(Tied), **QUICK).fit(parts[0]).save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "curves.json",
        "gradients.json",
        "manifest.json",
        "weights-1.safetensors",
    ]
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    described = manifest["settings"]["module"]["$module"]
    assert described["name"] == "Tied"
    assert {"name": "first.weight", "type": "float32", "shape": [6, 46]} in manifest["module"]["state"]


def test_without_the_module_the_error_says_what_is_needed(parts, tmp_path) -> None:
    NeuralRanker(module=_made(Tied), **QUICK).fit(parts[0]).save(tmp_path / "model")
    with pytest.raises(UsageError, match=r"weights of 'Tied', a user-supplied module") as caught:
        load(tmp_path / "model")
    assert "8 tensors: first.weight (float32 of shape [6, 46])" in str(caught.value)
    assert f"plackett.load({str(tmp_path / 'model')!r}, module=...)" in str(caught.value)


def test_a_module_for_a_model_that_needs_none_is_refused(parts, tmp_path) -> None:
    NeuralRanker(**QUICK, layers=(4,)).fit(parts[0]).save(tmp_path / "model")
    with pytest.raises(UsageError, match="load it without module="):
        load(tmp_path / "model", module=Tied)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda n: nn.Sequential(nn.Linear(n, 6), nn.Linear(6, 1)), "'first.weight' is absent|'0"),
        (lambda n: _with_middle(Tied(n), nn.Linear(6, 7)), r"'middle.weight' is .* \(7, 6\)"),
        (lambda n: Tied(n).double(), "'first.weight' is torch.float32 .* torch.float64"),
        (lambda n: Tied(n + 1), r"\(6, 46\) in the file and torch.float32 of shape \(6, 47\)"),
        (lambda _: 3, "module must be a torch.nn.Module"),
    ],
    ids=["another", "shape", "type", "features", "none"],
)
def test_a_module_that_does_not_match_is_refused_with_the_first_difference(other, message, parts, tmp_path) -> None:
    NeuralRanker(module=Tied, **QUICK).fit(parts[0]).save(tmp_path / "model")
    with pytest.raises(UsageError, match=message):
        load(tmp_path / "model", module=other)


def _with_middle(net, middle):
    net.middle = middle
    return net


def test_a_module_in_words_is_never_looked_up(parts, tmp_path) -> None:
    NeuralRanker(module=Tied, **QUICK).fit(parts[0]).save(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    text = file.read_text()
    for entry in ('"os.system"', '{"$module": 3}', '{"$module": {"name": 3}}', '["x"]'):
        manifest = json.loads(text)
        manifest["settings"]["module"] = json.loads(entry)
        file.write_text(json.dumps(seal(manifest)))
        with pytest.raises(DataError, match="cannot be read from a file"):
            load(tmp_path / "model", module=Tied)


@pytest.mark.parametrize("state", [3, [3], {"a": 1}, [{"name": 5}], None])
def test_an_odd_description_does_no_harm(state, parts, tmp_path) -> None:
    NeuralRanker(module=Tied, **QUICK).fit(parts[0]).save(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["module"] = {"state": state}
    file.write_text(json.dumps(seal(manifest)))
    with pytest.raises(UsageError, match="a user-supplied module"):
        load(tmp_path / "model")
    load(tmp_path / "model", module=Tied)


def test_the_command_line_says_what_is_needed(parts, tmp_path) -> None:
    NeuralRanker(module=Tied, **QUICK).fit(parts[0]).save(tmp_path / "model")
    (tmp_path / "data.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n")
    command = [sys.executable, "-m", "plackett", "rank", str(tmp_path / "model")]
    done = subprocess.run([*command, str(tmp_path / "data.txt")], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "module=..." in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr


class _Says(nn.Module):
    """Answers as it is told."""

    def __init__(self, answer) -> None:
        super().__init__()
        self.linear, self.answer = nn.Linear(46, 2), answer

    def forward(self, x):
        return self.answer(self.linear(x))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda y: y, r"documents x 46 features, returned shape \(\d+, 2\)"),
        (lambda y: y[:, 0].reshape(1, -1), r"returned shape \(1, \d+\); it must return one score"),
        (lambda y: y[1:, 0], r"returned shape \(\d+,\); it must return one score per document"),
        (lambda y: y.sum(), r"returned shape \(\)"),
        (lambda y: [y], "returned list; it must"),
        (lambda y: y[:, 0].long(), r"returned torch.int64; scores must be floats"),
        (lambda y: y[:, 0].detach(), "depend on no trained weight"),
        (lambda y: y @ y, r"failed: RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        (lambda y: y[:, 0] * float("nan"), "scores that are not finite"),
    ],
    ids=["two", "row", "short", "scalar", "list", "whole", "detached", "fails", "nan"],
)
def test_invalid_outputs_of_a_module_are_reported_with_their_shapes(answer, message, parts) -> None:
    with pytest.raises(UsageError, match=message):
        NeuralRanker(module=_Says(answer), **QUICK).fit(parts[0])


def test_a_module_for_another_number_of_features_is_told_both(parts) -> None:
    with pytest.raises(UsageError, match=r"Linear, given \d+ documents x 46 features, failed"):
        NeuralRanker(module=nn.Linear(45, 1), **QUICK).fit(parts[0])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (5, "got int"),
        (lambda _: "net", "got str"),
        (lambda _: 1 / 0, "failed to make a module for 46 features: ZeroDivisionError"),
        (nn.Identity(), "trained weights"),
    ],
    ids=["number", "text", "fails", "weightless"],
)
def test_objects_that_are_not_modules_are_refused(module, message, parts) -> None:
    with pytest.raises(UsageError, match=message):
        NeuralRanker(module=module, **QUICK).fit(parts[0])


class _Shared(nn.Module):
    """Two parameters over one memory, which is not how weights are tied."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(46, 46), nn.Linear(46, 1)
        self.b.weight = nn.Parameter(self.a.weight.data[:1])

    def forward(self, x):
        return self.b(self.a(x))


class _Extra(nn.Linear):
    def get_extra_state(self):
        return {"calls": 3}

    def set_extra_state(self, state) -> None:
        pass


class _Whole(nn.Linear):
    def __init__(self) -> None:
        super().__init__(46, 1)
        self.other = nn.Parameter(torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_Shared(), "'b.weight' and 'a.weight' of _Shared share memory"),
        (_Extra(46, 1), "holds '_extra_state', which is dict"),
        (_Whole(), "one floating-point type, got torch.float32 on cpu, torch.float64 on cpu"),
        (nn.Linear(46, 1).requires_grad_(False), "all of them are fixed"),
        (nn.Linear(46, 1, device="meta"), "'weight' of Linear is on the device meta"),
        (nn.Linear(46, 1).half(), "weights in torch.float16 cannot be trained"),
        (nn.ParameterList([torch.zeros(3, dtype=torch.complex64)]), "one floating-point type"),
    ],
    ids=["shared", "extra", "mixed", "fixed", "meta", "half", "complex"],
)
def test_state_that_could_not_be_saved_is_refused(module, message, parts) -> None:
    with pytest.raises(UsageError, match=message):
        NeuralRanker(module=module, **QUICK).fit(parts[0])


def test_a_function_may_give_out_the_same_module_each_time(parts) -> None:
    net = _made(Tied)
    before = net.first.weight.clone()
    again = NeuralRanker(module=lambda _: net, **QUICK).fit(parts[0])
    assert torch.equal(net.first.weight, before)
    alone = NeuralRanker(module=net, **QUICK).fit(parts[0])
    assert np.array_equal(again.predict(parts[2]), alone.predict(parts[2]))


class _NotCopied(nn.Linear):
    def __deepcopy__(self, memo):
        raise RuntimeError("no copies")


def test_a_module_that_cannot_be_copied_can_be_made_by_a_function(parts) -> None:
    with pytest.raises(UsageError, match=r"cannot be copied \(no copies\); give a function"):
        NeuralRanker(module=_NotCopied(46, 1), **QUICK).fit(parts[0])
    ranker = NeuralRanker(module=lambda n: _NotCopied(n, 1), **QUICK)
    first = ranker.fit(parts[0]).predict(parts[2])
    assert np.array_equal(ranker.fit(parts[0]).predict(parts[2]), first)


class _Remembers(nn.Module):
    """Keeps a tensor from one call for the next, be it in training or not."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.kept = nn.Linear(46, 46), None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.ones(46)
        if not self.training:
            self.kept = torch.ones(46)
        return self.linear(x) @ self.kept


def test_a_module_may_keep_tensors_between_scoring_and_training(parts) -> None:
    scores = NeuralRanker(module=_Remembers(), **QUICK).fit(parts[0], parts[1]).predict(parts[2])
    assert np.ptp(scores) > 0


class _Picky(nn.Linear):
    def __init__(self, n_features: int, outputs: int = 1) -> None:
        if n_features != 46:
            raise ValueError("only 46 features")
        super().__init__(n_features, outputs)


class _Maker:
    def __call__(self, n_features: int) -> nn.Module:
        return _Picky(n_features)


@pytest.mark.parametrize(
    "module",
    [_Picky, partial(_Picky, outputs=1), lambda n: _Picky(n), _Maker()],
    ids=["class", "partial", "lambda", "object"],
)
def test_whatever_makes_modules_for_its_own_data_only_can_be_saved(module, parts, tmp_path) -> None:
    ranker = NeuralRanker(module=module, **QUICK)
    ranker.fit(parts[0], checkpoint=tmp_path / "state").save(tmp_path / "model")
    loaded = load(tmp_path / "model", module=module)
    assert np.array_equal(loaded.predict(parts[2]), ranker.predict(parts[2]))


def test_trials_of_modules_are_told_apart() -> None:
    from plackett.models.artifact import encode_params

    def described(module):
        return encode_params(NeuralRanker(module=module))["module"]

    first = described(_made(Tied))
    assert described(_made(Tied)) == first
    assert described(Tied(46)) != first
    assert described(_made(lambda n: _with_middle(Tied(n), nn.Linear(6, 6)))) != first
    without_weights = nn.Sequential(nn.LazyLinear(1))
    assert described(without_weights) == described(without_weights)
    by_function = described(Tied)
    assert described(Tied) == by_function
    assert described(lambda n: Tied(n)) != described(lambda n: Tied(n + 1))
    json.dumps(first)


def test_a_comparison_runs_what_is_new_of_modules(parts, tmp_path) -> None:
    from plackett.experiments.compare import compare

    def ran(module) -> int:
        systems = {"own": NeuralRanker(module=module, **QUICK)}
        return compare(parts[0], systems, metrics="ndcg@5", store=tmp_path / "runs.db").ran

    assert [ran(_made(Tied)), ran(_made(Tied)), ran(Tied(46))] == [1, 0, 1]
    assert [ran(Tied), ran(Tied), ran(dropping)] == [1, 0, 1]
