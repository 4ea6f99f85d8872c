"""``--cluster``: which machines do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from plackett.base.errors import UsageError

if TYPE_CHECKING:
    from plackett.distributed import Cluster as Place


Cluster = Annotated[
    str | None,
    typer.Option(
        help='Work on Ray: "local:2" (workers on this machine), "auto" or "HOST:6379" (a cluster), '
        'with settings behind it: "auto?workers=8&threads=4".  [default: this process]',
        show_default=False,
    ),
]


def cluster_of(given: str | None) -> Place | None:
    """The cluster that is meant; refused before any work is done if Ray is missing."""
    if given is None:
        return None
    from plackett.base.optional import need_ray
    from plackett.distributed import as_cluster

    found = as_cluster(given)
    try:
        need_ray()
    except ImportError as error:
        raise UsageError(str(error)) from error
    return found


def cores_of(cluster: Place) -> dict[str, Any]:
    """Trials at the same time and threads of each, as far as they are known before it starts."""
    return {"jobs": cluster.local_workers, "threads": cluster.threads}
