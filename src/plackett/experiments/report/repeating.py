"""The section of a report that says how to repeat it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from plackett.experiments.report.contents import Report


def repeating_section(report: Report) -> str:
    """Command, notes, settings and environment."""
    parts = []
    if report.command:
        parts.append(f"<pre><code>{escape(report.command)}</code></pre>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    parts.append(f"<ul>{notes}</ul>" if notes else "")
    for name, settings in report.settings.items():
        parts.append(_settings(name, settings))
    if report.environment:
        parts.append(_settings("environment", report.environment))
    return f"<footer><h2>How to repeat it</h2><div class='small'>{''.join(parts)}</div></footer>"


def _settings(name: str, settings: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(str(key))}</td><td>{escape(_spelt(value))}</td></tr>"
        for key, value in settings.items()
    )
    return (
        f"<details><summary>{escape(name)}</summary><div class='scroll'><table class='settings'>"
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
