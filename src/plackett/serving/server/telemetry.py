"""Logs as lines of JSON: what happened, never what was in a body.

Texts of clients (paths, ids of requests) are escaped by JSON and cut, so that they cannot forge a
line.

Counts and times of a server in the text format of Prometheus (version 0.0.4).

All of it is changed by one thread, the event loop's, and so needs no locks.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, TextIO

_LONGEST = 200  # characters of a text


class Log:
    """Writes events to a stream.

    Parameters
    ----------
    stream
        Where to; by default standard error.
    requests
        Write requests too, not only what happens to the server.
    """

    def __init__(self, stream: TextIO | None = None, *, requests: bool = True) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self.requests = requests

    def write(self, event: str, *, level: str = "info", **facts: Any) -> None:
        """Write one line."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "event": event}
        line |= {key: _cut(value) for key, value in facts.items() if value is not None}
        try:
            with self._lock:
                self._stream.write(json.dumps(line) + "\n")
                self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more: no reason to stop answering

    def failure(self, event: str, error: BaseException, **facts: Any) -> None:
        """Write where an error came from; not its text, which may hold what was in a body."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        self.write(event, level="error", error=type(error).__name__, at=places, **facts)


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return value[:_LONGEST] + "..."
    return value


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of times, in seconds."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What a server has done since it was started."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By route and status."""
        self.lists: Counter[tuple[str, str]] = Counter()
        self.documents: Counter[tuple[str, str]] = Counter()
        """By model and version."""
        self.reloads: Counter[str] = Counter()
        """By what came of them."""
        self.in_flight = 0
        self.waiting = 0
        self._times: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.requests[route, status] += 1
        counts = self._times.setdefault(route, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._sums[route] = self._sums.get(route, 0.0) + seconds

    def text(self, models: Iterable[tuple[str, str]]) -> str:
        """Everything, for a scrape; ``models`` are names and versions that are served."""
        lines: list[str] = []
        _family(
            lines, "plackett_requests_total", "counter", "Answered requests.",
            {_labels(route=r, status=str(s)): n for (r, s), n in self.requests.items()},
        )  # fmt: skip
        self._histogram(lines)
        for name, what, counts in (
            ("plackett_lists_total", "Lists that were scored.", self.lists),
            ("plackett_documents_total", "Documents that were scored.", self.documents),
        ):
            values = {_labels(model=m, version=v): n for (m, v), n in counts.items()}
            _family(lines, name, "counter", what, values)
        _family(
            lines, "plackett_reloads_total", "counter", "Models looked for again, by outcome.",
            {_labels(outcome=outcome): n for outcome, n in self.reloads.items()},
        )  # fmt: skip
        _family(
            lines, "plackett_requests_in_flight", "gauge", "Requests that have no answer yet.",
            {"": self.in_flight},
        )  # fmt: skip
        _family(
            lines, "plackett_requests_scoring", "gauge", "Requests scored or waiting for it.",
            {"": self.waiting},
        )  # fmt: skip
        _family(
            lines, "plackett_model_info", "gauge", "Models that are served.",
            {_labels(model=name, version=version): 1 for name, version in models},
        )  # fmt: skip
        _family(
            lines, "process_resident_memory_bytes", "gauge", "Memory of the process.",
            {"": resident_bytes()},
        )  # fmt: skip
        return "\n".join(lines) + "\n"

    def _histogram(self, lines: list[str]) -> None:
        name = "plackett_request_seconds"
        lines += [f"# HELP {name} Time from first header to answer.", f"# TYPE {name} histogram"]
        for route, counts in self._times.items():
            total = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                lines.append(f"{name}_bucket{_labels(route=route, le=str(bound))} {total}")
            lines.append(f"{name}_sum{_labels(route=route)} {self._sums[route]:.6f}")
            lines.append(f"{name}_count{_labels(route=route)} {total}")


def _family(
    lines: list[str], name: str, kind: str, what: str, values: Mapping[str, int | float]
) -> None:
    lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{labels} {value}" for labels, value in values.items()]


def _labels(**labels: str) -> str:
    inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def resident_bytes() -> int:
    """Memory that the process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
