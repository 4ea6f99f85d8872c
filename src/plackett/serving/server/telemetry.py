"""Logs as lines of JSON, and metrics for Prometheus.

Logs never contain the content of a body. Strings from clients (paths, request ids) are escaped by
JSON and truncated, so that they cannot forge a line.
"""

import json
import sys
import threading
import traceback
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

METRICS_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MAX_LENGTH = 200  # characters of a string in a log


class Log:
    """Writes events, and requests if asked, to a stream; by default standard error."""

    def __init__(self, stream: TextIO | None = None, *, requests: bool = True) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self.requests = requests

    def write(self, event: str, *, level: str = "info", **fields: Any) -> None:
        """Write one line."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "event": event}
        for key, value in fields.items():
            is_long = isinstance(value, str) and len(value) > _MAX_LENGTH
            line[key] = value[:_MAX_LENGTH] + "..." if is_long else value
        try:
            with self._lock:
                self._stream.write(json.dumps(line) + "\n")
                self._stream.flush()
        except (OSError, ValueError):
            pass  # keep answering requests if the log is closed

    def failure(self, event: str, error: BaseException, **fields: Any) -> None:
        """Write where an error occurred, but not its message, which may quote a body."""
        frames = traceback.extract_tb(error.__traceback__)
        locations = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        self.write(event, level="error", error=type(error).__name__, at=locations, **fields)


class Metrics:
    """Counts and times since the server was started."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = 0
        """Requests without a response yet."""
        self.scoring = 0
        """Requests that are scored or wait for it."""
        self.requests = self._counter("requests", "Answered requests.", "route", "status")
        self.seconds = Histogram(
            "plackett_request_seconds",
            "Time from first header to answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.lists = self._counter("lists", "Lists that were scored.", "model", "version")
        self.documents = self._counter("documents", "Documents that were scored.", "model", "version")
        self.reloads = self._counter("reloads", "Reloaded models, by outcome.", "outcome")
        self._gauge("requests_in_flight", "Requests that have no answer yet.").set_function(lambda: self.in_flight)
        self._gauge("requests_scoring", "Requests scored or waiting for it.").set_function(lambda: self.scoring)
        self._models = self._gauge("model_info", "Models that are served.", "model", "version")
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"plackett_{name}", help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(f"plackett_{name}", help_text, labels, registry=self.registry)

    def to_text(self, models: Iterable[tuple[str, str]]) -> bytes:
        """All metrics in Prometheus' text format; ``models`` are names and versions served now."""
        self._models.clear()
        for name, version in models:
            self._models.labels(name, version).set(1)
        return generate_latest(self.registry)
