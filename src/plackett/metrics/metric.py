"""A metric as a value: frozen, hashable, with a spelling that can be parsed back.

The spelling is ``name[@cutoff][:convention][:option=value]...``. It has no commas, so several
metrics can be written ``ndcg@5,err@10:grade=4,map``. The names of ir_measures and trec_eval
(``nDCG@10``, ``P@5``, ``AP``, ``RR``, ``RBP(p=0.8)``, ``ndcg_cut_10``) are read as well; they
select the metric, not the tool's convention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from plackett.base.errors import UsageError, unknown_name
from plackett.base.ragged import Values
from plackett.metrics.conventions import CONVENTION_NAMES, CONVENTIONS, METRICS, NAMES
from plackett.metrics.definition import (
    NO_CUTOFF,
    OPTIONS,
    Definition,
    MetricSettings,
    Option,
    read_option,
    write_option,
)
from plackett.metrics.ranking import RankingRule, check_lists

DEFAULT_CONVENTION = "papers"
MOST_DIGITS = 18
"""Digits of a cut-off, so that it fits an int64 and stays below ``NO_CUTOFF``."""
_DEFINITIONS = {definition.name: definition for definition in METRICS}
_CONVENTIONS = {convention.name: convention for convention in CONVENTIONS}
_FORM = "write name[@cutoff][:convention][:option=value]..., such as ndcg@10 or err@10:grade=4"


def parse(text: str) -> tuple[str, int | None, str | None, Mapping[str, Option]]:
    """Split the text of one metric into name, cut-off, convention and options; the names are not checked yet.

    >>> parse("ndcg@5:lightgbm:ties=expected")
    ('ndcg', 5, 'lightgbm', {'ties': 'expected'})
    """
    head, *rest = (part.strip() for part in text.split(":"))
    head, options = _read_arguments(head, text)
    stem, _, digits = head.rpartition("_")
    if digits.isdigit() and _our_name(stem) in NAMES:  # ndcg_cut_10, as in trec_eval
        head = f"{stem}@{digits}"
    name, at, digits = head.partition("@")
    convention: str | None = None
    for part in rest:
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if equals:
            if option in options:
                raise UsageError(f"{text!r} gives option {option!r} twice; give it once.")
            options[option] = value
        elif convention is None:
            convention = part
        else:
            raise UsageError(f"{text!r} names two conventions, {convention!r} and {part!r}; {_FORM}.")
    cutoff = None
    if at:
        is_number = digits.strip().isascii() and digits.strip().isdigit() and len(digits.strip()) <= MOST_DIGITS
        if not is_number or int(digits) < 1:
            raise UsageError(f"a cut-off is an integer from 1 to 10**{MOST_DIGITS} - 1, got {digits!r} in {text!r}.")
        cutoff = int(digits)
    return _our_name(name.strip()), cutoff, convention, options


_OTHER_NAMES = {
    "p": "precision",
    "r": "recall",
    "ap": "map",
    "rr": "mrr",
    "recip_rank": "mrr",
    "hit": "success",
    "hr": "success",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
}
"""Names of ir_measures, trec_eval and recommender libraries, in lower case."""


def _our_name(name: str) -> str:
    lower = name.lower()
    ours = _OTHER_NAMES.get(lower, lower)
    return ours if ours in NAMES else name


def _read_arguments(head: str, text: str) -> tuple[str, dict[str, Option]]:
    """Read ir_measures' arguments, ``RBP(p=0.8)`` or ``P(rel=2)@5``."""
    match = re.fullmatch(r"(\w+)\((.*)\)(.*)", head)
    if match is None:
        return head, {}
    options: dict[str, Option] = {}
    for pair in filter(None, (pair.strip() for pair in match[2].split(","))):
        name, _, value = (piece.strip().strip("'\"") for piece in pair.partition("="))
        if name == "p":
            options["persistence"] = value
        elif name == "rel" and value.isdigit() and int(value) > 0:
            options["threshold"] = int(value) - 1  # labels of at least rel are relevant
        elif name == "max_rel":
            options["grade"] = value
        elif name == "dcg" and value in _GAINS:
            options["gain"] = _GAINS[value]
        else:
            raise UsageError(
                f"{pair!r} in {text!r} has no counterpart here; of ir_measures' arguments p, rel, "
                f"max_rel and dcg are read. Otherwise {_FORM}."
            )
    return match[1] + match[3], options


_GAINS = {"log2": "identity", "exp-log2": "exp2"}


def split(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of metrics.

    >>> split("ndcg@5, err@10:grade=4, RBP(p=0.8,rel=2)")
    ('ndcg@5', 'err@10:grade=4', 'RBP(p=0.8,rel=2)')
    """
    parts = tuple(part.strip() for part in re.split(r",(?![^(]*\))", text))
    if not all(parts):
        raise UsageError(f"{text!r} has an empty place between commas; {_FORM}.")
    return parts


@dataclass(frozen=True, repr=False)
class Metric:
    """A metric with its cut-off, convention and settings; made by :func:`metric`.

    >>> str(metric("err@10", grade=4))
    'err@10:grade=4'
    """

    name: str
    cutoff: int | None
    convention: str
    settings: MetricSettings

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        document_ids: ArrayLike | None = None,
        keys: ArrayLike | None = None,
    ) -> Values:
        """Value of each list; NaN where the convention drops the list.

        Parameters
        ----------
        scores
            One per document, higher is better; minus infinity means that the document was not
            retrieved: it counts as a document of the list but gains nothing.
        labels
            One per document, finite and not negative.
        offsets
            List q holds the documents ``offsets[q]`` to ``offsets[q + 1]``.
        document_ids
            One per document; only ``ties=docid`` uses them.
        keys
            One uint64 per list for ``ties=random``; by default the list's position.
        """
        from plackett.metrics.evaluate import values_per_list  # imports this module

        lists = check_lists(scores, labels, offsets, document_ids=document_ids, keys=keys)
        return values_per_list([self], lists)[0]

    @property
    def definition(self) -> Definition:
        """The metric before its cut-off and convention are chosen."""
        return _DEFINITIONS[self.name]

    @property
    def depth(self) -> int:
        """The cut-off, or a number larger than any list."""
        return NO_CUTOFF if self.cutoff is None else self.cutoff

    @property
    def rule(self) -> RankingRule:
        """How documents are ordered."""
        s = self.settings
        if self.definition.uses_groups:
            # Ties count one half in any order, so their rule does not matter.
            return RankingRule("expected", 0, s.rounding, groups=True, retrieved_only=False)
        return RankingRule(s.ties, s.seed, s.rounding, groups=s.ties == "expected")

    def __repr__(self) -> str:
        return f"Metric({str(self)!r})"

    def __str__(self) -> str:
        default = _default_settings(self.name, self.convention)
        parts = [self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"]
        if self.convention != DEFAULT_CONVENTION:
            parts.append(self.convention)
        for option in OPTIONS:
            value = getattr(self.settings, option)
            if value != getattr(default, option):
                parts.append(f"{option}={write_option(value)}")
        return ":".join(parts)


ListMetric: TypeAlias = Callable[[Any, Any], float]
"""A user's function of the scores and labels of one list."""

_FUNCTIONS: dict[str, FunctionMetric] = {}
"""The user's metrics by name, so that their spellings parse back in this process."""


@dataclass(frozen=True, repr=False)
class FunctionMetric(Metric):
    """A metric that a Python function computes; made by :func:`metric`."""

    function: ListMetric

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker process that receives the metric must know its name, too.
        return _from_function, (self.function, self.name)


def _from_function(function: ListMetric, name: str | None = None) -> FunctionMetric:
    try:
        signature(function).bind(None, None)
    except TypeError as error:
        raise UsageError(
            "a metric is a function of two arguments, the scores and the labels of one list; "
            f"this one cannot be called with two ({error})."
        ) from error
    except ValueError:  # a function in C may have no signature
        pass
    label = name or str(getattr(function, "__name__", type(function).__name__)).strip("<>")
    if not label.isidentifier() or _our_name(label) in NAMES:
        reason = "is a metric already" if _our_name(label) in NAMES else "is not a plain name"
        raise UsageError(
            f"a metric of a function cannot be called {label!r}, which {reason}; give it another "
            'name, for example pk.metric(function, name="my_metric").'
        )
    result = FunctionMetric(label, None, DEFAULT_CONVENTION, MetricSettings(), function)
    _FUNCTIONS[label] = result
    return result


MetricLike: TypeAlias = str | Metric | ListMetric
"""What is accepted as a metric: its spelling, a metric, or a function of one list."""


def metric(
    spelling: MetricLike, convention: str | None = None, *, name: str | None = None, **options: Option
) -> Metric:
    """Make a metric from its spelling, ``name[@cutoff][:convention][:option=value]...``.

    Parameters
    ----------
    spelling
        Such as ``"ndcg@10"`` or ``"map:lightgbm:ties=expected"``; a metric is returned unchanged.
        Or a function ``f(scores, labels)`` of one list, whose arguments are float arrays in the
        order of the documents. It returns one number, higher is better; NaN drops the list.
    convention
        One of ``papers letor3 letor4 mslr lightgbm xgboost catboost trec_eval sklearn``, if the
        spelling names none.
    name
        For a function: its name in tables; by default the name of the function.
    **options
        As in the spelling: see :mod:`plackett.metrics.definition`.

    Raises
    ------
    UsageError
        For a name, convention, option or combination that does not exist.

    Examples
    --------
    >>> metric("P@5")
    Metric('precision@5')
    >>> def first_label(scores, labels):
    ...     return labels[scores.argmax()]
    >>> metric(first_label)([0.1, 0.9, 0.5, 0.2], [0, 2, 1, 0], [0, 2, 4])
    array([2., 1.])
    """
    if isinstance(spelling, Metric):
        if convention is not None or options:
            raise UsageError(f"{str(spelling)!r} is a metric already; give its spelling to add options.")
        return spelling
    if callable(spelling):
        if convention is not None or options:
            raise UsageError("a metric that a function computes has no convention and no options.")
        return _from_function(spelling, name)
    if not isinstance(spelling, str):
        raise UsageError(
            "a metric is written as text, such as 'ndcg@10', or given as a function of the scores "
            f"and labels of one list, got {spelling!r}."
        )
    if convention is not None and not isinstance(convention, str):
        raise UsageError(
            f"a convention is a name, such as 'lightgbm', got {convention!r}; a cut-off is part of "
            "the spelling, as in 'ndcg@5'."
        )
    if name is not None:
        raise UsageError(f"name= is for functions; {spelling!r} has its name already.")
    if spelling.strip() in _FUNCTIONS and convention is None and not options:
        return _FUNCTIONS[spelling.strip()]
    kind, cutoff, named, parsed = parse(spelling)
    if kind not in _DEFINITIONS:
        raise unknown_name("metric", kind, NAMES)
    definition = _DEFINITIONS[kind]
    _check_agreement("the convention", named, convention)
    chosen = named or convention or DEFAULT_CONVENTION
    if cutoff is not None and not definition.has_cutoff:
        raise UsageError(f"{kind!r} has no cut-off, got {spelling!r}.")
    written, passed = _read(definition, parsed), _read(definition, options)
    for option in written.keys() & passed.keys():
        _check_agreement(f"option {option!r}", written[option], passed[option])
    settings = replace(_default_settings(kind, chosen), **{**written, **passed})  # type: ignore[arg-type] # read_option gives the right types
    if settings.seed != 0 and settings.ties != "random":
        raise UsageError(f"option 'seed' needs ties=random, but ties={settings.ties}.")
    if kind == "map" and settings.ties == "expected" and settings.denominator == "found":
        raise UsageError(
            "map with ties=expected and denominator=found is not defined, since the number of "
            "relevant documents found then depends on the order of ties; use "
            "denominator=relevant or cutoff."
        )
    return Metric(kind, cutoff, chosen, settings)


def metrics(specs: MetricLike | Iterable[MetricLike]) -> tuple[Metric, ...]:
    """Make metrics from one, several, or a comma-separated text, without duplicates.

    >>> [str(m) for m in metrics("ndcg@5, err@10")]
    ['ndcg@5', 'err@10']
    """
    if isinstance(specs, str):
        specs = split(specs)
    elif not isinstance(specs, Iterable):
        specs = (specs,)
    result = tuple(dict.fromkeys(metric(spec) for spec in specs))
    names = list(map(str, result))
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two metrics are called {name!r}; name one with pk.metric(f, name=).")
    return result


def _default_settings(name: str, convention: str) -> MetricSettings:
    """Settings of a metric under a convention, before the options of the user."""
    if convention not in _CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTION_NAMES)
    rules = _CONVENTIONS[convention]
    if name not in rules.metrics:
        raise UsageError(
            f"{rules.title} has no metric {name!r} of single lists; under the convention "
            f"{convention!r} there is: {', '.join(rules.metrics)}. The convention 'papers' has all."
        )
    options = {**_DEFINITIONS[name].defaults, **rules.metrics[name]}
    return replace(MetricSettings(), **options)  # type: ignore[arg-type] # checked by a test


def _read(definition: Definition, options: Mapping[str, Option]) -> dict[str, Option]:
    for name in options:
        if name not in definition.options:
            note = "" if name not in OPTIONS else f" {name!r} is an option of other metrics."
            known = definition.options
            raise unknown_name("option", name, known, of=definition.name, note=note)
    return {name: read_option(name, value, choices=definition.choices.get(name)) for name, value in options.items()}


def _check_agreement(what: str, written: Option | None, passed: Option | None) -> None:
    if written is not None and passed is not None and written != passed:
        raise UsageError(f"two values of {what}: {written!r} and {passed!r}; give one.")
