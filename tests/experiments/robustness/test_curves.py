from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.experiments.compare import compare
from plackett.experiments.noise import NoiseProtocol
from plackett.experiments.protocols import Splits, as_source
from plackett.experiments.robustness import (
    NOISE_KINDS,
    Augmentation,
    Clicks,
    LabelNoise,
    render_curves,
    robustness,
    write_curves,
)
from small_systems import FITS, FeatureRanker, small_data


@pytest.fixture(scope="module")
def web():
    return pk.synthetic("web", n_lists=80, seed=0)


def _same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in ((one.features, other.features), (one.labels, other.labels)))


@pytest.mark.parametrize("name", NOISE_KINDS)
def test_noise_is_a_value_and_none_of_it_changes_nothing(web, name) -> None:
    noise = NOISE_KINDS[name]
    assert noise.apply(web, level=0.0, seed=1) is web
    once = noise.apply(web, level=0.4, seed=1)
    assert _same(once, noise.apply(web, level=0.4, seed=1))
    assert not _same(once, noise.apply(web, level=0.4, seed=2))
    with pytest.raises(UsageError, match="not be negative, got -1"):
        noise.apply(web, level=-1, seed=0)


@pytest.mark.parametrize("level", [0.2, 0.5, 1.0])
def test_augmentation_adds_the_share_as_irrelevant_documents_of_other_lists(web, level) -> None:
    noisy = Augmentation().apply(web, level=level, seed=3).grouped()
    # Lists are named by their place, and stand in an order of their own.
    web = web.canonical()
    place = noisy.list_ids
    before = np.diff(web.offsets)[place]
    assert np.diff(noisy.offsets).tolist() == (before + np.floor(level * before + 0.5)).tolist()
    known = {row.tobytes(): q for q in range(web.n_lists) for row in web.features[web.offsets[q] : web.offsets[q + 1]]}
    for i in range(0, noisy.n_lists, 7):
        rows = slice(noisy.offsets[i], noisy.offsets[i + 1])
        origin = np.array([known[row.tobytes()] for row in noisy.features[rows]])
        added = origin != place[i]
        assert added.sum() == np.floor(level * before[i] + 0.5)
        assert not noisy.labels[rows][added].any()
        original = web.labels[web.offsets[place[i]] : web.offsets[place[i] + 1]]
        assert sorted(noisy.labels[rows][~added]) == sorted(original)


def test_augmentation_keeps_weights_names_and_sparse_features() -> None:
    rng = np.random.default_rng(0)
    features = csr_array(rng.integers(0, 2, size=(30, 4)).astype(np.float32))
    data = pk.Dataset.from_arrays(features, rng.integers(0, 3, 30), np.arange(30) // 5, weights=np.arange(1.0, 7.0))
    noisy = Augmentation().apply(data, level=0.4, seed=0)
    assert isinstance(noisy.features, csr_array)
    assert noisy.n_docs == 42
    assert noisy.weights is not None
    assert data.weights is not None
    assert noisy.weights.tolist() == data.canonical().weights[noisy.list_ids].tolist()


def test_augmentation_draws_lists_equally_not_documents() -> None:
    sizes = [1, 400, 1]
    features = np.repeat(np.arange(3.0), sizes)[:, None]
    data = pk.Dataset.from_arrays(features, np.ones(402), np.repeat(np.arange(3), sizes))
    noisy = Augmentation().apply(data, level=1.0, seed=0)
    mask = noisy.labels == 1
    from_short = np.sum((noisy.features[:, 0] != 1) & ~mask)
    # The long list gets 400 from the two short ones; each of those gets one from either other.
    assert from_short >= 400


def test_augmentation_keeps_categories_and_groups_and_refuses_positions(web) -> None:
    columns = {"x": web.features[:, 0], "kind": np.where(web.labels > 0, "a", "b"), "label": web.labels}
    data = pk.Dataset(columns | {"qid": web.query_ids}, categorical=["kind"])._replace(
        groups=np.arange(web.n_lists) // 2
    )
    noisy = Augmentation().apply(data, level=0.5, seed=0)
    assert noisy.categories == data.categories
    assert sorted(np.bincount(noisy.groups)) == sorted(np.bincount(data.groups))
    with pytest.raises(DataError, match="shown at no position"):
        Augmentation().apply(data._replace(positions=np.ones(data.n_docs, np.int64)), level=0.5, seed=0)


@pytest.mark.parametrize("level", [0.2, 1.0])
def test_label_noise_draws_the_share_of_labels_from_the_papers_distribution(web, level) -> None:
    noisy = LabelNoise().apply(web, level=level, seed=5)
    assert np.array_equal(noisy.features, web.features)
    changed = np.add.reduceat(noisy.labels != web.labels, web.offsets[:-1])
    assert np.all(changed <= np.floor(level * np.diff(web.offsets) + 0.5))
    assert changed.sum() > 0.5 * level * web.n_docs
    if level == 1.0:
        counts = np.bincount(noisy.labels.astype(int), minlength=5)
        expected = np.array([0.5, 0.2, 0.15, 0.1, 0.05]) * web.n_docs
        assert stats.chisquare(counts, expected).pvalue > 1e-4


def test_label_noise_keeps_to_the_levels_of_the_data() -> None:
    noisy = LabelNoise().apply(small_data(), level=1.0, seed=0)
    assert set(np.unique(noisy.labels)) == {0.0, 1.0, 2.0}


def test_label_noise_refuses_what_it_has_no_chances_for(web) -> None:
    with pytest.raises(DataError, match="labels 0 to 1, but the data have others, up to 4"):
        LabelNoise((0.5, 0.5)).apply(web, level=0.5, seed=0)
    with pytest.raises(UsageError, match="at most 1, got 2"):
        LabelNoise().apply(web, level=2, seed=0)
    with pytest.raises(UsageError, match="must not be negative"):
        LabelNoise((0.5, -0.5))
    one = pk.Dataset.from_arrays([[1.0], [2.0]], [0, 1], [0, 0])
    with pytest.raises(DataError, match="only one list"):
        Augmentation().apply(one, level=1, seed=0)


def test_only_training_lists_are_touched_and_level_zero_is_the_plain_protocol(web) -> None:
    source, plain = as_source(web), Splits(2)
    noisy = NoiseProtocol(plain, LabelNoise(), (0.0, 0.5))
    plan = noisy.splits(source)
    for part, ours in zip(plan[:2], plain.splits(source), strict=True):
        assert (part.division, part.seed, part.name) == (ours.division, ours.seed, ours.name)
    assert len({(part.division, part.seed) for part in plan}) == 4
    clean, dirty = noisy.load(source, plan[1]), noisy.load(source, plan[3])
    assert _same(clean.test, dirty.test)
    assert _same(clean.validation, dirty.validation)
    assert not _same(clean.train, dirty.train)
    with pytest.raises(UsageError, match="must be different numbers"):
        NoiseProtocol(plain, LabelNoise(), (0.5, 0.5))


@dataclass
class _Learner(FeatureRanker):
    """Knows how noisy the labels are: its scores are those of a feature minus the mean label."""

    def _fit(self, train, validation, run) -> None:
        super()._fit(train, validation, run)
        self.noise = float(train.labels.mean())


def test_curves_have_a_point_per_level_and_differences_are_paired(tmp_path) -> None:
    data, store = small_data(), tmp_path / "runs.db"
    systems = {"steady": FeatureRanker(feature=3), "shaken": _Learner(feature=3)}
    compare(data, systems, protocol="splits:4", metrics="map", store=store)
    FITS.clear()
    result = robustness(
        data, systems, noise=LabelNoise((0.1, 0.1, 0.8)), levels=(0.0, 1.0), protocol="splits:4", store=store
    )
    assert len(FITS) == 8  # the trials without noise were in the store
    steady, shaken = result.curves["steady"], result.curves["shaken"]
    assert steady[0] == steady[1]
    assert shaken[1].mean < shaken[0].mean
    d = result.differences["shaken"][1]
    assert d.mean == pytest.approx(shaken[1].mean - steady[1].mean)
    assert d.low < d.mean < d.high
    assert (result.trials, result.levels, result.alpha) == (4, (0.0, 1.0), 0.01)


def test_levels_are_those_of_the_noise_unless_others_are_given() -> None:
    systems = {"a": FeatureRanker(feature=3), "b": FeatureRanker(feature=0)}
    for noise in (Clicks(), Augmentation()):
        assert robustness(small_data(), systems, noise=noise, protocol="splits:2").levels == noise.levels


def test_the_page_has_a_line_per_curve_and_escapes_names(tmp_path) -> None:
    systems = {"<a>": FeatureRanker(feature=3), "b": FeatureRanker(feature=0)}
    actual = robustness(small_data(), systems, noise=Augmentation(), levels=(0, 1), protocol="splits:3")
    page = render_curves(actual)
    assert "&lt;a&gt;" in page
    assert "<a>" not in page
    # Two systems, and the difference of the second in the colour of its curve.
    assert re.findall(r'<polyline class="(c\d)"', page) == ["c0", "c1", "c1"]
    write_curves(actual, tmp_path / "curves.html")
    assert (tmp_path / "curves.html").read_text() == page
