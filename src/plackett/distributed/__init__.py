"""Work on several machines, on Ray: training together, trials as tasks, shards of data."""

from plackett.base.errors import ClusterError
from plackett.distributed.cluster import Cluster, as_cluster

__all__ = ["Cluster", "ClusterError", "as_cluster"]
