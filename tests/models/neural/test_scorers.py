from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plackett.base.errors import UsageError  # noqa: E402
from plackett.base.ragged import offsets_from_sizes  # noqa: E402
from plackett.models import NeuralRanker  # noqa: E402
from plackett.models.neural.scorers import build_net  # noqa: E402

SIZES = [3, 1, 5, 3, 2]


def _features(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(SIZES), 4, generator=generator)


def _scores(net, features, sizes):
    with torch.no_grad():
        return net.eval()(features, offsets_from_sizes(sizes)).numpy()


@pytest.mark.parametrize("settings", [{}, {"attention": 2, "heads": 2}, {"group_size": 3}], ids=str)
def test_lists_do_not_see_each_other(settings) -> None:
    net = build_net(NeuralRanker(layers=(8, 6), **settings), 4)
    features = _features()
    whole = _scores(net, features, SIZES)
    parts = [_scores(net, part, [len(part)]) for part in features.split(SIZES)]
    assert whole == pytest.approx(np.concatenate(parts), rel=1e-5, abs=1e-6)


def test_attention_sees_the_other_documents_but_not_their_order() -> None:
    net = build_net(NeuralRanker(layers=(8, 6), attention=2, heads=3), 4)
    features = _features()[:5]
    scores = _scores(net, features, [5])
    order = [3, 1, 4, 0, 2]
    assert _scores(net, features[order], [5]) == pytest.approx(scores[order], rel=1e-4, abs=1e-6)
    assert abs(_scores(net, features[:4], [4])[0] - scores[0]) > 1e-4


def test_a_block_of_attention_is_pytorchs_own_encoder_layer() -> None:
    net = build_net(NeuralRanker(layers=(6,), attention=1, heads=2), 4)
    (block,) = net.blocks
    peer = torch.nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True, norm_first=True)
    names = {
        "self_attn.in_proj_weight": block.mixed.weight,
        "self_attn.in_proj_bias": block.mixed.bias,
        "self_attn.out_proj.weight": block.out.weight,
        "self_attn.out_proj.bias": block.out.bias,
        "linear1.weight": block.inside[0].weight,
        "linear1.bias": block.inside[0].bias,
        "linear2.weight": block.inside[3].weight,
        "linear2.bias": block.inside[3].bias,
    }
    peer.load_state_dict(names, strict=False)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    ours = block(x, [torch.arange(5)[None]])
    assert ours.detach().numpy() == pytest.approx(peer(x[None])[0].detach().numpy(), abs=1e-5)


def test_a_group_is_a_document_and_those_that_follow_in_a_circle() -> None:
    net = build_net(NeuralRanker(layers=(7,), group_size=2), 4)
    x = _features()[:3]
    pairs = torch.stack([torch.cat([x[a], x[b]]) for a, b in [(0, 1), (1, 2), (2, 0)]])
    with torch.no_grad():
        (a, b), (c, d), (e, f) = net.net(pairs).numpy()
    expected = [(a + f) / 2, (b + c) / 2, (d + e) / 2]
    assert _scores(net, x, [3]) == pytest.approx(expected, rel=1e-5)


def test_groups_are_shuffled_within_lists_while_training() -> None:
    net = build_net(NeuralRanker(layers=(7,), group_size=2), 4).train()
    members = net._members(offsets_from_sizes(SIZES))
    list_of = np.repeat(np.arange(len(SIZES)), SIZES)
    assert np.array_equal(list_of[members[:, 0]], list_of)
    assert np.array_equal(list_of[members[:, 1]], list_of)
    assert sorted(members[:, 0].tolist()) == list(range(sum(SIZES)))


def test_the_momentum_of_normalisation_is_tensorflows() -> None:
    net = build_net(NeuralRanker(layers=(3,), batch_norm=0.9), 4).train()
    x = _features()
    net(x, offsets_from_sizes(SIZES))
    (first, *_) = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm1d)]
    assert first.running_mean.numpy() == pytest.approx(0.1 * x.mean(0).numpy(), rel=1e-5)


def test_there_is_a_normalisation_on_the_input_and_after_each_layer() -> None:
    net = build_net(NeuralRanker(layers=(8, 5), batch_norm=0.9, dropout=0.5), 4)
    kinds = [type(module).__name__ for module in net.modules()]
    assert kinds.count("BatchNorm1d") == 3
    assert kinds.count("Dropout") == 2


def test_without_layers_the_net_is_linear() -> None:
    net = build_net(NeuralRanker(layers=()), 4)
    x = _features()
    doubled = _scores(net, 2 * x, SIZES) - _scores(net, 0 * x, SIZES)
    single = _scores(net, x, SIZES) - _scores(net, 0 * x, SIZES)
    assert doubled == pytest.approx(2 * single, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "softplus"}, "activation must be one of 'relu', 'elu'"),
        ({"layers": (10, 0)}, r"layers must be positive whole numbers, got \(10, 0\)"),
        ({"learning_rate": -1.0}, "learning_rate must be a positive number, got -1.0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"batch_norm": 1.5}, "batch_norm is a momentum below 1, got 1.5"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative"),
        ({"attention": -1}, "attention is a number of blocks"),
        ({"epochs": 0}, "epochs must be a positive whole number, got 0"),
        ({"batch_lists": None}, "batches need a limit"),
        ({"batch_documents": 0}, "batch_documents must be a positive whole number or None"),
        ({"attention": 1, "group_size": 2}, "attention and group_size cannot be combined"),
        ({"recurrent": "rnn", "layers": ()}, "recurrent needs the output of a layer"),
        ({"attention": 1, "heads": 3, "layers": (8,)}, "heads must divide the width"),
        ({"device": "gpu"}, "device 'gpu' cannot be used here"),
        ({"seed": "0"}, "seed must be a whole number"),
        ({"threads": 0}, "threads must be a positive number or None for all"),
        ({"device": 0}, "device must be"),
        ({"module": 3}, "module must be a torch.nn.Module"),
    ],
)
def test_settings_that_make_no_net_are_refused(settings, message, small) -> None:
    with pytest.raises(UsageError, match=message):
        NeuralRanker(**settings).fit(small)


CONTEXT = [
    {"attention": 2, "heads": 2, "inducing": 3},
    {"attention": 1, "heads": 3, "latent_cross": True},
    {"local_context": True},
]


@pytest.mark.parametrize("settings", CONTEXT, ids=str)
def test_scores_follow_the_documents_and_see_the_whole_list_alone(settings) -> None:
    net = build_net(NeuralRanker(layers=(8, 6), **settings), 4)
    features = _features()
    whole = _scores(net, features, SIZES)
    parts = [_scores(net, part, [len(part)]) for part in features.split(SIZES)]
    assert whole == pytest.approx(np.concatenate(parts), rel=1e-4, abs=1e-6)
    five, order = features[:5], [3, 1, 4, 0, 2]
    scores = _scores(net, five, [5])
    assert _scores(net, five[order], [5]) == pytest.approx(scores[order], rel=1e-4, abs=1e-6)
    assert abs(_scores(net, five[:4], [4])[0] - scores[0]) > 1e-5


@pytest.mark.parametrize("settings", CONTEXT, ids=str)
def test_gradients_are_those_of_finite_differences(settings) -> None:
    net = build_net(NeuralRanker(layers=(6,), activation="tanh", **settings), 4).double()
    features = _features().double().requires_grad_()
    offsets = offsets_from_sizes(SIZES)
    assert torch.autograd.gradcheck(lambda x: net(x, offsets), features, atol=1e-6)
    for weights in net.parameters():
        weights.grad = None
    net(features, offsets).square().sum().backward()
    assert all(weights.grad is not None and weights.grad.abs().sum() > 0 for weights in net.parameters())


def test_a_latent_cross_multiplies_layers_by_what_the_list_adds() -> None:
    settings = {"layers": (6,), "attention": 1, "heads": 2}
    net = build_net(NeuralRanker(latent_cross=True, **settings), 4)
    x, offsets = _features(), offsets_from_sizes(SIZES)
    groups = [torch.from_numpy(offsets[:-1][np.equal(SIZES, n)][:, None] + np.arange(n)) for n in sorted(set(SIZES))]
    with torch.no_grad():
        hidden = net.body(x)
        expected = net.last((1 + net.blocks[0](hidden, groups)) * hidden).reshape(-1).numpy()
    assert _scores(net, x, SIZES) == pytest.approx(expected, rel=1e-5)


def test_the_context_is_read_in_the_order_of_the_first_scores() -> None:
    net = build_net(NeuralRanker(layers=(5,), local_context=True), 4)
    x = _features()[:5]
    with torch.no_grad():
        hidden = net.body(x)
        first = net.first(hidden).reshape(-1)
        order = first.argsort()
        outputs, state = net.gru(hidden[order][:, None])
        added = net.last(outputs[:, 0] * torch.tanh(net.context(state[0]))).reshape(-1)
        expected = first.clone()
        expected[order] += added
    assert _scores(net, x, [5]) == pytest.approx(expected.numpy(), rel=1e-5)


def test_noise_disturbs_training_and_not_scores(small) -> None:
    settings = {"layers": (8,), "epochs": 2, "threads": 1}
    plain, noisy = (NeuralRanker(noise=noise, **settings).fit(small) for noise in (0.0, 0.5))
    assert not np.array_equal(plain.predict(small), noisy.predict(small))
    assert np.array_equal(noisy.predict(small), noisy.predict(small))
    again = NeuralRanker(noise=0.5, **settings).fit(small)
    assert np.array_equal(again.predict(small), noisy.predict(small))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": -1.0}, "noise must not be negative, got -1.0"),
        ({"inducing": 4}, "inducing belongs to attention"),
        ({"latent_cross": True}, "latent_cross belongs to attention"),
        ({"attention": 1, "inducing": -1}, "inducing is a number of points"),
        ({"local_context": True, "attention": 1}, "attention and local_context cannot be combined"),
        ({"local_context": True, "layers": ()}, "local_context needs the output of a layer"),
    ],
)
def test_settings_of_context_that_make_no_net_are_refused(settings, message, small) -> None:
    with pytest.raises(UsageError, match=message):
        NeuralRanker(**settings).fit(small)
