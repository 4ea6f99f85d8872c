"""How long fits will take, judged by the beginnings of small ones."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

import plackett as pk
from plackett.base.ragged import Scores
from plackett.cli.console import ahead_in_words
from plackett.data.dataset import Dataset
from plackett.experiments.plan import Forecast, Probe, _all_steps
from plackett.experiments.protocols import SplitData
from plackett.experiments.systems import System
from plackett.models.ranker import FitContext, Ranker

_FIXED, _EACH = 1e-4, 5e-7  # seconds of a step, and of a step for each document


@dataclass
class Metronome(Ranker):
    """Spends a known time on each step; sleeps as well, as if other programs were running."""

    steps: int = 1000
    asleep: float = 0.0
    transforms: tuple[str, ...] = ()

    def _fit(self, train: Dataset, validation: Dataset | None, run: FitContext) -> None:  # noqa: ARG002
        for i in range(self.steps):
            end = time.thread_time() + _FIXED + _EACH * train.n_docs
            while time.thread_time() < end:
                pass
            time.sleep(self.asleep)
            run.progress("ticking", i + 1, self.steps)

    def _predict(self, data: Dataset) -> Scores:
        return data.labels.astype(float)

    def _write(self, folder: Any) -> None:
        raise NotImplementedError

    def _read(self, folder: Any) -> None:
        raise NotImplementedError


@pytest.fixture(scope="module")
def trial() -> SplitData:
    data = pk.synthetic("letor", n_lists=150, seed=0)
    return SplitData("all", data.lists(0, 100), data.lists(100, 120), data.lists(120, 150), seed=0)


@pytest.mark.parametrize("asleep", [0.0, 0.01])
def test_what_other_programs_take_does_not_count(trial, asleep) -> None:
    probe = Probe(trial, threads=1, documents=100_000)
    found = probe(System("metronome", Metronome(asleep=asleep)))
    true = 1000 * (_FIXED + 100_000 * _EACH)
    assert true / 2 < found < 2 * true
    assert probe.slowdown > 3 or not asleep


def test_a_fit_that_ends_soon_is_seen_whole(trial) -> None:
    found = Probe(trial, threads=1)(System("metronome", Metronome(steps=3)))
    assert 0 < found < 10 * 3 * (_FIXED + trial.train.n_docs * _EACH)


def test_steps_that_get_slower_are_judged_by_the_last_ones() -> None:
    ticks = [(0.0, 1, 13), (0.1, 2, 13), (0.3, 3, 13), (0.7, 4, 13), (1.1, 5, 13)]
    assert _all_steps(ticks, 1.1) == pytest.approx(12 * 0.4)
    assert _all_steps(ticks[:1], 0.5) == pytest.approx(0.5)
    assert _all_steps([], 0.5) == 0.0


def test_a_busy_machine_is_said() -> None:
    assert ahead_in_words(Forecast(4, 4, 0.0)) == "; 4 are finished already"
    assert "other programs" not in ahead_in_words(Forecast(4, 0, 9.0, 1.2))
    words = ahead_in_words(Forecast(4, 1, 9.0, 3.2))
    assert words.startswith("; 1 are finished already; expected time: about 9 s")
    assert words.endswith("other programs are running, with which it takes 3 times as long")
