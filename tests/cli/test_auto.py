"""plackett auto: what it tells about the distilled model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from plackett.cli import auto
from plackett.models.auto.distillation import Distillation


@pytest.mark.parametrize(
    ("student", "text"),
    [(None, "all members are tree models"), (SimpleNamespace(), "distilled: 9 trees, loses 0.1000 ndcg@10")],
)
def test_the_loss_of_distillation_is_told(student, text, monkeypatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(auto, "print_text", lines.append)
    distillation = Distillation(student, 9, 0.4, 0.5, 0.2, 20, 0.1, 0.3)
    ranker = SimpleNamespace(leaderboard_=(), distillation_=distillation, metric="ndcg@10", summary=lambda: "")
    auto._print_result(ranker, {"test": None, "model": "m", "seconds": 1.0})
    assert any(line.startswith(text) for line in lines)
