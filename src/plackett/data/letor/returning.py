"""Query ids that come back: lists whose lines do not stand together."""

from __future__ import annotations

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Ids
from plackett.data.letor.blocks import Source
from plackett.data.letor.survey import survey


def refuse_returning(query_ids: Ids, source: Source) -> None:
    """Raise if a query id occurs again after lines of other queries."""
    starts = np.concatenate([[0], np.flatnonzero(query_ids[1:] != query_ids[:-1]) + 1])
    again = np.ones(len(starts), dtype=bool)
    again[np.unique(query_ids[starts], return_index=True)[1]] = False
    if again.any():
        row = int(starts[np.argmax(again)])
        message = (
            f"query id {query_ids[row]} comes back after lines of other queries; "
            "sort the file by query, or read it without strict"
        )
        line = _line_of(row, source) if source.regular else None
        raise DataError(message, path=source.path, line=line)


def _line_of(row: int, source: Source) -> int:
    """Find the line that holds a row, counted from 1; the file is gone through once more."""
    before = 1
    for block in source.blocks():
        for piece in block:
            lines, rows, _, _ = survey(piece.text, piece.start, piece.stop)
            if row < rows:
                text = piece.text[piece.start : piece.stop].tobytes()
                data = [line.partition(b"#")[0].strip() for line in text.split(b"\n")]
                return before + int(np.flatnonzero(np.array([len(d) for d in data]))[row])
            before, row = before + lines, row - rows
    raise DataError("changed while it was read", path=source.path)
