from __future__ import annotations

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.experiments.noise import NoiseProtocol
from plackett.experiments.protocols import Splits, as_source
from plackett.experiments.robustness import Clicks, noise_kind


@pytest.fixture(scope="module")
def web():
    return pk.synthetic("web", n_lists=60, seed=0)


def test_a_list_ends_at_its_only_click(web) -> None:
    result = Clicks().apply(web, level=0.05, seed=3)
    clicks = np.add.reduceat(result.labels, result.offsets[:-1])
    assert np.all(clicks == 1)
    assert np.diff(result.offsets).min() >= 2
    assert result.n_lists <= 10 * web.n_lists
    rows = {row.tobytes(): label for row, label in zip(web.features, web.labels, strict=True)}
    clicked = [rows[row.tobytes()] for row in result.features[result.labels == 1]]
    assert np.mean(clicked) > 1.5 * web.labels.mean()


def test_more_noise_clicks_more_irrelevant_documents(web) -> None:
    rows = {row.tobytes(): label for row, label in zip(web.features, web.labels, strict=True)}

    def irrelevant(level: float) -> float:
        result = Clicks().apply(web, level=level, seed=0)
        return float(np.mean([rows[x.tobytes()] == 0 for x in result.features[result.labels == 1]]))

    assert irrelevant(0.05) < irrelevant(0.25)


def test_validation_lists_become_clicks_too_and_test_lists_do_not(web) -> None:
    noisy = NoiseProtocol(Splits(2, 0), Clicks(impressions=2), (0.05,))
    source = as_source(web, name="web")
    (part, _) = noisy.splits(source)
    trial = noisy.load(source, part)
    plain = Splits(2, 0).load(source, Splits(2, 0).splits(source)[0])
    assert trial.validation.labels.max() == 1
    assert trial.validation.n_lists != plain.validation.n_lists
    assert np.array_equal(trial.test.labels, plain.test.labels)
    assert "training and validation lists" in part.division


def test_clicks_go_by_name_with_the_papers_levels() -> None:
    noise = noise_kind("clicks")
    assert noise == Clicks()
    assert noise.levels == (0.05, 0.1, 0.15, 0.2, 0.25)
    assert noise.clicks == (0.05, 0.3, 0.5, 0.7, 0.95)


def test_what_is_wrong_is_refused(web) -> None:
    with pytest.raises(UsageError, match=r"at most 1, got 1\.5"):
        Clicks().apply(web, level=1.5, seed=0)
    with pytest.raises(UsageError, match="at least 1, got 0"):
        Clicks(impressions=0)
    with pytest.raises(UsageError, match="chances from 0 to 1"):
        Clicks(clicks=(2.0,))
    with pytest.raises(DataError, match="give chances for all"):
        Clicks(clicks=(0.05, 0.3)).apply(web, level=0.05, seed=0)
