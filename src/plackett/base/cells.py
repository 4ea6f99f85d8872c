"""Cells of text tables with tabs between."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r'[\t\r\n"]')


def cell(value: object) -> str:
    r"""A value as a cell: what holds a tab, a quote or the end of a line stands in quotes.

    >>> cell("a b"), cell("a\tb")
    ('a b', '"a\tb"')
    """
    text = str(value)
    if _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'
