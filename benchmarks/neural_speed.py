"""The section on speed of the page of neural results, out of what neural.py --json printed."""

from __future__ import annotations

import json
from pathlib import Path

from neural_words import row

WORDS = """## Speed

`benchmarks/neural.py`: an epoch of the same net, batches and loss on the web set,
against lists padded to the longest of their batch in dense PyTorch tensors; two threads; the
fastest of several epochs in turns; memory is the peak of an epoch beyond what the process held.
"""

COSTS = """
Zhu & Klabjan say that uRank is 7 to 14 times as fast as p-ListMLE, 15 to 32 times as fast as MDPRank, and as
tensors 2 to 3 times as fast as in loops. Found here, in an epoch with one list a batch: p-ListMLE
takes {plistmle:.2f} and MDPRank {mdprank:.2f} of the time of uRank, as every loss is a compiled
kernel; uRank as PyTorch tensors is {tensors:.1f} times as fast as in loops.
"""


def speed_section(path: Path) -> str:
    found = json.loads(path.read_text())
    text = WORDS + "\n" + row("loss", "padded s", "ours s", "times as fast", *_SPACE)
    text += row(*["---"] * 7)
    for r in found["epoch"]:
        s, m = r["seconds"], r["megabytes"]
        ratio, share = s["padded"] / s["ours"], m["ours"] / m["padded"]
        numbers = [f"{s['padded']:.2f}", f"{s['ours']:.2f}", f"**{ratio:.1f}**"]
        space = [f"{m['padded']:.0f}", f"{m['ours']:.0f}", f"**{share:.2f}**"]
        text += row(r["loss"], *numbers, *space)
    return text + _costs(found["costs"])


_SPACE = ("padded MB", "ours MB", "share")


def _costs(seconds: dict[str, float]) -> str:
    base = seconds["urank"]
    text = COSTS.format(
        plistmle=seconds["plistmle"] / base,
        mdprank=seconds["mdprank"] / base,
        tensors=seconds["urank in torch, loops"] / seconds["urank in torch, tensors"],
    )
    text += "\n" + row("epoch, one list a batch", "s", "times urank") + row(*["---"] * 3)
    for name, value in seconds.items():
        text += row(name, f"{value:.3f}", f"{value / base:.2f}")
    return text
