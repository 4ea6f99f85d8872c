"""Work in several processes of this machine, or on several machines with Ray.

:mod:`~plackett.distributed.local_pool` runs processes on this machine. For Ray, three parts build on each other:

- :mod:`~plackett.distributed.driver_process`: a child process that owns the connection to Ray. The user's
  process talks to it over a pipe, so a crash of Ray never ends the user's process.
- :mod:`~plackett.distributed.task_pool`: independent tasks with retries and heartbeats.
- :mod:`~plackett.distributed.training_job`: several workers that train one model together.
"""

from plackett.base.errors import ClusterError
from plackett.distributed.cluster import Cluster, as_cluster
from plackett.distributed.coordinator import TrainingState, WorkerGroup
from plackett.distributed.task_pool import TaskContext, TaskEvent, TaskPool, map_on_cluster
from plackett.distributed.training_job import Partition, TrainingJob

__all__ = [
    "Cluster",
    "ClusterError",
    "Partition",
    "TaskContext",
    "TaskEvent",
    "TaskPool",
    "TrainingJob",
    "TrainingState",
    "WorkerGroup",
    "as_cluster",
    "map_on_cluster",
]
