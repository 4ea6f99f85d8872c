"""Parts of the reference that are made from the registries of the package when the site is built."""

from __future__ import annotations

import re
from typing import Any

# Source and cost of each objective; everything else follows from its class.
SOURCES: dict[str, tuple[str, str]] = {
    "crossentropy": ("cross entropy with labels divided by their sum {cite:p}`bruch2020stochastic`", "n"),
    "listnet": ("cross entropy with the softmax of the labels {cite:p}`cao2007listnet`", "n"),
    "xendcg": ("cross entropy with perturbed gains, a bound on NDCG {cite:p}`bruch2021xendcg`", "n"),
    "approxndcg": ("minus NDCG with sigmoid ranks {cite:p}`qin2010approx`", "n²"),
    "approxmrr": ("minus the reciprocal rank with sigmoid ranks", "n²"),
    "softrank": ("minus NDCG expected under Gaussian scores {cite:p}`taylor2008softrank`", "n³"),
    "lambdarank": (
        "pairs weighted by the change of a metric when they swap ranks {cite:p}`burges2006lambdarank`",
        "n · truncation",
    ),
    "lambdaloss": ("NDCG-Loss 1, 2, 2++, ARP-Loss 1, 2 {cite:p}`wang2018lambdaloss`", "n²"),
    "ranknet": ("logistic loss of pairs {cite:p}`burges2005ranknet`", "n²"),
    "listmle": ("likelihood of the ranking by labels {cite:p}`xia2008listmle`", "n"),
    "plistmle": ("the same, weighted by position {cite:p}`lan2014plistmle`", "n"),
    "mdprank": ("policy gradient of a sampled ranking {cite:p}`wei2017mdprank`", "n log n"),
    "urank": ("unique-rating softmax {cite:p}`zhu2020unique`", "n log n"),
    "umart": ("windowed unique-rating lambdas {cite:p}`zhu2020unique`", "n²"),
    "mle": ("likelihood of the ideal bipartite ranking {cite:p}`dubey2009conditional`", "n⁺n⁻"),
    "expgain-auc": ("minus log of the expected gain {cite:p}`dubey2009conditional`", "samples · n"),
    "expgain-map": ("minus log of the expected gain {cite:p}`dubey2009conditional`", "samples · n"),
    "expgain-ndcg": ("minus log of the expected gain {cite:p}`dubey2009conditional`", "samples · n"),
    "convexloss-auc": ("convex bound on the expected loss {cite:p}`dubey2009conditional`", "samples · n"),
    "convexloss-map": ("convex bound on the expected loss {cite:p}`dubey2009conditional`", "samples · n"),
    "convexloss-ndcg": ("convex bound on the expected loss {cite:p}`dubey2009conditional`", "samples · n"),
    "l2-auc": ("expected loss {cite:p}`dubey2009conditional`", "samples · n"),
    "l2-map": ("expected loss {cite:p}`dubey2009conditional`", "samples · n"),
    "l2-ndcg": ("expected loss {cite:p}`dubey2009conditional`", "samples · n"),
    "l3-auc": ("likelihood and expected loss together {cite:p}`dubey2009conditional`", "samples · n"),
    "l3-map": ("likelihood and expected loss together {cite:p}`dubey2009conditional`", "samples · n"),
    "l3-ndcg": ("likelihood and expected loss together {cite:p}`dubey2009conditional`", "samples · n"),
    "ranksvm": ("hinge of pairs {cite:p}`joachims2002ranksvm`", "n log n"),
    "rankboost": ("exponential loss of pairs {cite:p}`freund2003rankboost`", "n log n"),
    "svmmap": ("structured hinge for average precision {cite:p}`yue2007svmmap`", "n⁺n⁻"),
    "boltzrank": ("NDCG expected over sampled rankings {cite:p}`volkovs2009boltzrank`", "samples · n"),
    "pairhinge": ("mean hinge of pairs, as in TF-Ranking and Rax", "n log n"),
    "pairsquared": (
        "mean squared error of score differences against label differences {cite:p}`cossock2006subset`",
        "n log n",
    ),
    "squared": ("squared error of scores against labels", "n"),
    "logistic": ("logistic regression of being relevant: scores are log odds", "n"),
    "ordinal": ("ordinal regression with all thresholds: scores are grades {cite:p}`rennie2005ordinal`", "n · grades"),
    "calibrated-softmax": (
        "softmax with a document of score 0: scores are logarithms of labels {cite:p}`yan2022calibration`",
        "n",
    ),
    "circle": ("circle loss: relevant scores to 1, others to 0 {cite:p}`sun2020circle`", "n"),
    "lambdagap": ("pairs at least k ranks apart, for precision at k {cite:p}`adalia2025lambdagap`", "n²"),
    "approxmap": ("minus average precision with sigmoid ranks {cite:p}`qin2010approx`", "n⁺n"),
    "approxerr": ("minus expected reciprocal rank with sigmoid ranks {cite:p}`chapelle2009err`", "n⁺n"),
    "softsort": ("minus NDCG of SoftSort's relaxed permutation {cite:p}`prillo2020softsort`", "n²"),
    "neuralndcg": ("minus NDCG of a doubly stochastic NeuralSort {cite:p}`pobrotyn2021neuralndcg`", "rounds · n²"),
    "pirank": ("minus NDCG of NeuralSort's relaxed permutation {cite:p}`swezey2021pirank`", "n²"),
    "fastsoftrank": ("minus NDCG at soft ranks by isotonic regression {cite:p}`blondel2020fast`", "n²"),
    "yetirank": ("neighbors in rankings by noisy scores, as pairs {cite:p}`gulin2011yetirank`", "samples · n log n"),
    "stochasticrank": (
        "minus NDCG smoothed by Gaussian noise, estimated from one draw {cite:p}`ustimenko2020stochasticrank`",
        "n²",
    ),
}


def objectives_table() -> str:
    """One row per objective: what it is, its declared properties, cost, and the recipes that use it."""
    from plackett.objectives import OBJECTIVES

    users = _recipes_by_objective()
    lines = [
        "| name | what | exact | convex | random | weights | cost | recipes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in OBJECTIVES:
        loss = kind()
        what, cost = SOURCES[kind.name]
        cells = [
            f"{{py:class}}`{kind.name} <plackett.objectives.{kind.__name__}>`",
            what,
            *("yes" if value else "" for value in (loss.exact, loss.convex, loss.draw, loss.weighting)),
            cost,
            ", ".join(f"`{name}`" for name in users.get(kind.name, [])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _recipes_by_objective() -> dict[str, list[str]]:
    from plackett.models import RECIPES
    from plackett.objectives import Objective, Stochastic

    users: dict[str, list[str]] = {}
    for name, entry in RECIPES.items():
        loss: Any = entry.settings.get("objective", "rankboost" if entry.kind.__name__ == "StumpRanker" else None)
        loss = loss.objective if isinstance(loss, Stochastic) else loss
        if loss is not None:
            users.setdefault(loss.name if isinstance(loss, Objective) else loss, []).append(name)
    return users


def commands() -> str:
    """Every command with its arguments and options."""
    from plackett.cli.app import COMMANDS, _load_command

    parts = []
    for name in COMMANDS:
        command = _load_command(name)
        usage = [f"plackett {name}"]
        groups: dict[str, list[str]] = {}
        for parameter in command.params:
            if parameter.name == "help":
                continue
            is_argument = parameter.param_type_name == "argument"
            if is_argument:
                title = (parameter.name or "").upper() + ("..." if parameter.nargs == -1 else "")
                usage.append(title if parameter.required else f"[{title}]")
            else:
                names = [*parameter.opts, *parameter.secondary_opts]
                title = ", ".join(f"`{option}`" for option in names)
            if parameter.required and not is_argument:
                usage.append(f"{parameter.opts[0]} {(parameter.name or '').upper()}")
            group = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
            text = _plain(getattr(parameter, "help", "") or "")
            default = parameter.default
            hidden = default is None or default is False or default in ((), []) or callable(default)
            shown = "" if hidden or "[default" in text else f"`{default}`"
            cell = f"`{title}`" if is_argument else title
            groups.setdefault(group, []).append(f"| {cell} | {text} | {shown} |")
        body = _plain((command.help or "").strip(), keep_lines=True)
        part = [f"## plackett {name}", "", "```text", " ".join(usage) + " [OPTIONS]", "```", "", body, ""]
        for group, rows in groups.items():
            part += [f"| {group} | | default |", "|---|---|---|", *rows, ""]
        parts.append("\n".join(part))
    return "\n".join(parts)


def _plain(text: str, keep_lines: bool = False) -> str:
    """Help text as Markdown: without Rich's escapes, on one line for tables."""
    text = text.replace("\\[", "[").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return text if keep_lines else re.sub(r"\s+", " ", text)


PLACEHOLDERS = {"<!-- objectives -->": objectives_table, "<!-- commands -->": commands}


def fill(app: Any, docname: str, source: list[str]) -> None:  # noqa: ARG001
    """Put the generated parts in the places that pages keep for them."""
    for placeholder, make in PLACEHOLDERS.items():
        if placeholder in source[0]:
            source[0] = source[0].replace(placeholder, make())
