"""The experiments of Dubey et al. (2009): protocol, claims, and diagnostics of the sampler."""

from plackett.experiments.conditional.claims import Claim, claims
from plackett.experiments.conditional.diagnostics import (
    Dynamics,
    accuracy_of_samplers,
    dynamics,
    smear,
)
from plackett.experiments.conditional.figures import draw_lines, draw_scatter
from plackett.experiments.conditional.protocol import (
    METRICS,
    SYSTEMS,
    Outcome,
    Results,
    run_protocol,
)
from plackett.experiments.conditional.tables import as_markdown

__all__ = [
    "METRICS",
    "SYSTEMS",
    "Claim",
    "Dynamics",
    "Outcome",
    "Results",
    "accuracy_of_samplers",
    "as_markdown",
    "claims",
    "draw_lines",
    "draw_scatter",
    "dynamics",
    "run_protocol",
    "smear",
]
