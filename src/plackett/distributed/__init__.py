"""Work on several machines, on Ray: training together, trials as tasks, shards of data."""

from plackett.distributed.cluster import Cluster, as_cluster
from plackett.distributed.errors import ClusterError

__all__ = ["Cluster", "ClusterError", "as_cluster"]
