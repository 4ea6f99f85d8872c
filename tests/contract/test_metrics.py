"""Every metric under every convention keeps the promises that all metrics make."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.metrics import CONVENTION_NAMES, CONVENTIONS, METRICS, NAMES, metric
from plackett.metrics.definition import CHOICES, OPTIONS, read_option

PAIRS = [(d, c) for c in CONVENTIONS for d in METRICS if d.name in c.metrics]
IDS = [f"{d.name}-{c.name}" for d, c in PAIRS]
LACKING = [(name, c) for c in CONVENTIONS for name in NAMES if name not in c.metrics]


def small_lists():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 5, 5, 12, 30])
    # Labels of at most 1 mean something under every convention.
    labels = rng.integers(0, 2, 30)
    labels[1:5] = 0
    return rng.integers(0, 4, 30).astype(float), labels, offsets, rng.permutation(30)


def test_names_and_conventions_are_those_promised():
    assert NAMES == ("ndcg", "dcg", "err", "map", "mrr", "precision", "recall", "success", "auc", "rbp")
    assert CONVENTION_NAMES == (
        "papers",
        "letor3",
        "letor4",
        "mslr",
        "lightgbm",
        "xgboost",
        "catboost",
        "trec_eval",
        "sklearn",
    )


@pytest.mark.kernels
@pytest.mark.parametrize(("definition", "convention"), PAIRS, ids=IDS)
def test_a_metric_gives_one_float_per_list_and_no_infinity(definition, convention):
    values = metric(definition.name, convention.name)(*small_lists())
    assert values.dtype == np.float64
    assert values.shape == (5,)
    assert not np.isinf(values).any()


@pytest.mark.parametrize(("definition", "convention"), PAIRS, ids=IDS)
def test_a_list_is_dropped_only_where_the_convention_says_so(definition, convention):
    m = metric(definition.name, convention.name)
    dropped = np.isnan(m(*small_lists()))
    assert dropped[1] == dropped[2] == (m.settings.empty == "drop")
    assert not dropped[3:].any()


@pytest.mark.parametrize(("definition", "convention"), PAIRS, ids=IDS)
def test_inputs_are_not_changed(definition, convention):
    inputs, untouched = small_lists(), small_lists()
    metric(definition.name, convention.name)(*inputs)
    assert all(np.array_equal(a, b) for a, b in zip(inputs, untouched, strict=True))


@pytest.mark.parametrize(("definition", "convention"), PAIRS, ids=IDS)
def test_a_score_that_is_not_a_number_is_refused(definition, convention):
    scores, labels, offsets, ids = small_lists()
    scores[7] = np.nan
    with pytest.raises(DataError, match="document 7"):
        metric(definition.name, convention.name)(scores, labels, offsets, ids)


@pytest.mark.parametrize(("definition", "convention"), PAIRS, ids=IDS)
def test_settings_of_a_convention_are_values_that_the_options_allow(definition, convention):
    for name, value in convention.metrics[definition.name].items():
        assert name in definition.options
        read = read_option(name, value, choices=definition.choices.get(name))
        assert read == value
        assert type(read) is type(value)


@pytest.mark.kernels
@pytest.mark.parametrize("definition", METRICS, ids=NAMES)
def test_every_option_of_a_metric_exists_and_every_value_of_it_works(definition):
    assert set(definition.options) <= set(OPTIONS)
    for option in definition.options:
        for value in definition.choices.get(option) or CHOICES.get(option, ()):
            values = metric(definition.name, **{option: value})(*small_lists())
            assert np.isfinite(values[3:]).all()


@pytest.mark.parametrize(("name", "convention"), LACKING)
def test_a_metric_that_a_tool_lacks_is_an_error_that_names_those_it_has(name, convention):
    there_is = f"has no metric '{name}' .* there is: {', '.join(convention.metrics)}"
    with pytest.raises(UsageError, match=there_is):
        metric(name, convention.name)
