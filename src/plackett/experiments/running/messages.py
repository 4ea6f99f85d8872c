"""What a comparison and its worker processes say to each other, over pipes of their own."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, BinaryIO

from plackett.experiments.protocols import Part
from plackett.experiments.running.runners import Setup
from plackett.experiments.running.sharing import SharedSource
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
class Failure:
    """A trial that could not be run."""

    kind: str
    """Name of the exception's class."""
    text: str
    trace: str


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message."""
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message; EOFError if the other side is gone."""
    return pickle.load(stream)
