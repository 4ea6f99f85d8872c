"""The end of a page: what it takes to repeat it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


def closing(
    *,
    command: str | None,
    notes: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
    environment: Mapping[str, str],
) -> str:
    """Command, notes, settings of systems and versions, folded up."""
    parts = [f"<pre><code>{escape(command)}</code></pre>"] if command else []
    parts.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>")
    for name, own in {**settings, "environment": environment}.items():
        rows = "".join(
            f"<tr><td>{escape(str(key))}</td><td>{escape(_spelt(value))}</td></tr>"
            for key, value in own.items()
        )
        parts.append(
            f"<details><summary>{escape(name)}</summary><div class='scroll'>"
            f"<table class='settings'><tbody>{rows}</tbody></table></div></details>"
        )
    return f"<footer><h2>How to repeat it</h2><div class='small'>{''.join(parts)}</div></footer>"


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
