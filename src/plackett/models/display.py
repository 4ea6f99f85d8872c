"""Fitted models in figures (Matplotlib, extra ``figures``) and in notebooks (HTML)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plackett.base.errors import UsageError, require, unknown_name

if TYPE_CHECKING:
    from plackett.data.dataset import Dataset
    from plackett.models.ranker import Ranker

_TOP = 10  # features in a notebook


def plot_curves(ranker: Ranker, metric: str | None = None, *, ax: Any = None) -> Any:
    """Draw a metric of each part of the data against the steps of the fit."""
    ranker._require_fitted()
    names = list(dict.fromkeys(name for part in ranker.curves_.values() for name in part))
    if not names:
        raise UsageError(
            f"this {type(ranker).__name__} has no learning curves; they are recorded by fit"
            + (" with validation lists." if ranker.training_ else ".")
        )
    if metric is None:
        metric = next((name for name in names if name != "loss"), names[0])
    if metric not in names:
        raise unknown_name("curve", metric, names)
    axes = _axes(ax)
    for part, by_name in ranker.curves_.items():
        if metric in by_name:
            axes.plot(range(1, len(by_name[metric]) + 1), by_name[metric], label=part)
    if ranker.best_step_ and "validation" in ranker.curves_:
        axes.axvline(ranker.best_step_, color="0.6", linewidth=1, linestyle="--")
    axes.set(xlabel="step", ylabel=metric, title=ranker.summary())
    axes.legend(frameon=False)
    return axes


def plot_importance(
    ranker: Ranker,
    kind: str | None = None,
    data: Dataset | None = None,
    *,
    top: int = 20,
    ax: Any = None,
) -> Any:
    """Draw the importance of the most important features as bars."""
    values = dict(list(ranker.importance(kind, data).items())[:top])
    axes = _axes(ax)
    axes.barh(list(values), list(values.values()))
    axes.invert_yaxis()
    default = ranker._importance_kinds[0] if data is None else "permutation"
    axes.set(xlabel=f"importance ({kind or default})", title=ranker.summary())
    return axes


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    require("matplotlib")
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


_TEMPLATE = """\
<div style="font-family: sans-serif; font-size: 13px; line-height: 1.5">
<b>{{ title }}</b>{% if recipe %} &middot; {{ recipe }}{% endif %}
<div style="opacity: .7">{{ status }}</div>
{% if bars %}
<table style="margin: 6px 0; border-collapse: collapse">
{% for name, share, value in bars %}
<tr><td style="text-align: left; padding: 0 8px 0 0">{{ name }}</td>
<td style="width: 160px; padding: 0"><div style="width: {{ share }}%; height: 9px;
 background: #4c78a8"></div></td><td style="padding: 0 0 0 8px">{{ value }}</td></tr>
{% endfor %}
</table>
{% endif %}
<details><summary>parameters</summary><table>
{% for name, value in parameters %}
<tr><td style="text-align: left">{{ name }}</td>
<td style="text-align: left"><code>{{ value }}</code></td></tr>
{% endfor %}
</table></details>
</div>"""


def html_summary(ranker: Ranker) -> str:
    """A ranker in a notebook: what it is, how it was fitted, its most important features."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(_TEMPLATE)
    return template.render(
        title=type(ranker).__name__,
        recipe=ranker.recipe_name,
        status=_status(ranker),
        bars=_bars(ranker),
        parameters=[(name, repr(value)) for name, value in ranker.get_params().items()],
    )


def _status(ranker: Ranker) -> str:
    if ranker.n_features_ is None:
        return "not fitted"
    parts = [f"{ranker.n_features_:,} features"]
    train = (ranker.training_ or {}).get("train")
    if isinstance(train, dict) and {"lists", "documents"} <= set(train):
        parts.append(f"fitted on {train['lists']:,} lists, {train['documents']:,} documents")
    step = ranker.best_step_
    if step is not None:
        parts.append(f"{step:,} steps")
    for name, values in ranker.curves_.get("validation", {}).items():
        # Of a continued fit the curve begins after the steps of the first model.
        if step is not None and 1 <= step <= len(values):
            parts.append(f"validation {name} {values[step - 1]:.4f}")
    return ", ".join(parts)


def _bars(ranker: Ranker) -> list[tuple[str, float, str]]:
    if ranker.n_features_ is None or not ranker._importance_kinds:
        return []
    try:
        values = list(ranker.importance().items())[:_TOP]
    except UsageError:
        return []
    largest = max((value for _, value in values), default=0.0)
    if largest <= 0:
        return []
    return [
        (name, round(100 * max(value, 0) / largest, 1), f"{value:.4g}") for name, value in values
    ]
