"""One function over many items, such as shards of a data set, with Ray Data."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from plackett.distributed.cluster import Cluster
from plackett.distributed.conductor import Conductor
from plackett.distributed.line import Line
from plackett.distributed.sessions import room

Item = dict[str, Any]
_ROW = "answer"


def map_together(
    work: Callable[[Item], Item],
    items: Sequence[Item],
    *,
    cluster: Cluster,
    progress: Callable[[int, int], None],
) -> list[Item]:
    """The answers of ``work`` to all items, in no particular order.

    Parameters
    ----------
    work
        A function of a module. It may be called again for an item whose worker died.
    items
        What it is called with.
    cluster
        Where.
    progress
        Called with the number of items done, and of all.
    """
    found: list[Item] = []

    def late() -> str:
        return (
            f"{cluster.place}: none of the {len(items) - len(found)} items left was finished "
            f"within {cluster.limit:g} s (step_seconds); the workers were ended."
        )

    with Conductor(cluster, run_map, work, list(items), cluster) as conductor:
        while len(found) < len(items):
            kind, content = conductor.receive(time.monotonic() + cluster.limit, late)
            if kind == "answer":
                found.append(content)
                progress(len(found), len(items))
    return found


def run_map(line: Line, work: Callable[[Item], Item], items: list[Item], cluster: Cluster) -> None:
    """Give the items to Ray Data, and pass on the answers as they come."""
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = False
    data = ray.data.from_items(items, override_num_blocks=len(items))
    answers = data.map(
        _answered, fn_args=(work,), num_cpus=cluster.threads, concurrency=room(cluster)
    )
    for row in answers.iter_rows():
        kind, content = row[_ROW]
        if kind == "failed":
            line.send(("failed", content))
            return
        line.send(("answer", content))


def _answered(item: Item, work: Callable[[Item], Item]) -> dict[str, Any]:
    """An answer, or what went wrong: Ray Data would wrap an error in many lines of its own."""
    import traceback

    try:
        return {_ROW: ("answer", work(item))}
    except Exception as error:
        return {_ROW: ("failed", (type(error).__name__, str(error), traceback.format_exc()))}
