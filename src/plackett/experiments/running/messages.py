"""What a comparison and its worker processes say to each other, over pipes of their own."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, BinaryIO

from plackett.base.errors import UsageError
from plackett.experiments.protocols import Part
from plackett.experiments.running.runners import Setup
from plackett.experiments.running.sharing import SharedSource
from plackett.experiments.store import Outcome
from plackett.models.ranker import Ranker


@dataclass(frozen=True)
class Start:
    """The first message to a worker."""

    source: SharedSource
    setup: Setup


@dataclass(frozen=True)
class Order:
    """A trial to run."""

    ranker: Ranker
    part: Part


@dataclass(frozen=True)
class Answer:
    """A trial that was run."""

    outcome: Outcome
    cautions: tuple[str, ...]
    """Texts of warnings that a solver stopped before it was done."""


@dataclass(frozen=True)
class Failure:
    """A trial that could not be run."""

    kind: str
    """Name of the exception's class."""
    text: str
    trace: str


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message, whole or not at all."""
    try:
        content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"what a model is made of cannot be sent to another process ({error}); define "
            "functions and modules in a file that can be imported, or run one job at a time."
        ) from error
    stream.write(content)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message; EOFError if the other side is gone."""
    return pickle.load(stream)
