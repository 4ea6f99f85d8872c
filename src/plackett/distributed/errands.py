"""Pieces of work that a cluster does one by one, seen from the process that wants them done."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from plackett.distributed.cluster import Cluster
from plackett.distributed.conductor import Conductor, as_error
from plackett.distributed.tasks import Stop, Work, serve_tasks

if TYPE_CHECKING:
    from typing_extensions import Self


class News(NamedTuple):
    """What was heard of a piece of work."""

    number: int
    kind: Literal["told", "done", "failed", "unwanted"]
    """A message on the way; or its end: with a result, with an error, or since it was stopped."""
    content: Any


class Errands:
    """Sends pieces of work to a cluster; to be used in a ``with`` block, which ends them all.

    Each is tried again where its worker dies, at most ``cluster.retries`` times: it then says what
    it had said before once more.

    Parameters
    ----------
    cluster
        Where.
    work
        A function of a module: what is done.
    common
        What all pieces share; it goes to each machine once.
    """

    def __init__(self, cluster: Cluster, work: Work, common: Any) -> None:
        self._cluster = cluster
        self._conductor = Conductor(cluster, serve_tasks, work, common, cluster)
        try:
            deadline = time.monotonic() + cluster.start_limit
            self.slots: int = self._conductor.receive(deadline, self._late)[1]
            """Pieces that are done at the same time."""
        except BaseException:
            self._conductor.close()
            raise

    def send(self, number: int, own: Any) -> None:
        """Have a piece of work done; the number is for :class:`News` of it, and for once only."""
        self._conductor.send((number, own))

    def stop(self, number: int) -> None:
        """Say that an answer is not wanted any more; the work ends at its next sign of life."""
        self._conductor.send(Stop(number))

    def receive(self) -> News | None:
        """The next news; None, about once a second, where there are none. Raises if all is over."""
        kind, content = self._conductor.receive(time.monotonic() + self._cluster.limit, self._late)
        if kind == "told":
            return News(content[0], "told", content[1])
        if kind != "answer":
            return None
        number, (verdict, result) = content
        return News(number, verdict, as_error(*result) if verdict == "failed" else result)

    def _late(self) -> str:
        return f"{self._cluster.place} does not answer within {self._cluster.limit:g} s."

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._conductor.close()
