"""Trials are run here: in this process or in several, each of them once."""

from plackett.experiments.running.estimate import Expected, expected_time
from plackett.experiments.running.jobs import Job, jobs_of
from plackett.experiments.running.runners import InProcess, Runner, Setup
from plackett.experiments.running.schedule import run_missing
from plackett.experiments.running.system import System, as_systems
from plackett.experiments.running.workers import Workers

__all__ = [
    "Expected",
    "InProcess",
    "Job",
    "Runner",
    "Setup",
    "System",
    "Workers",
    "as_systems",
    "expected_time",
    "jobs_of",
    "run_missing",
]
