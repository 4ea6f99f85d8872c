r"""Nets one after the other, each fitted to what the ones before leave (uBoost).

.. math:: F_1 = \arg\min L, \qquad f_m \approx -\frac{\partial L}{\partial F}\Big|_{F_{m-1}},
    \qquad F_m = F_{m-1} + \rho f_m

The first net minimises the objective; each later one is a fresh net fitted by least squares to the
negative gradient, while the earlier ones stay as they are. A net that does not make validation
better is left out and is the last (Zhu & Klabjan 2020). One net alone is the plain case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.models.neural.batch_plan import BatchPlan
from plackett.models.neural.loss import LevelTask, ListTask, ResidualTask, Task
from plackett.models.neural.ranker import NetSettings
from plackett.models.neural.scorers import build, gradients, restored_randomness
from plackett.models.neural.training import Curves, Training, Watched, Weights, copied, part, summed
from plackett.models.neural.user_module import name_of
from plackett.models.neural.weights import damaged, first_sum, read_state, write_state
from plackett.models.ranker import FitContext, Progress, WatchFunction
from plackett.models.selection import Means, Selection
from plackett.objectives import objective as as_objective
from plackett.objectives.objective import reseed


@dataclass
class BoostedTraining:
    """One fit of one net or several."""

    given: NetSettings
    train: Dataset
    validation: Dataset | None
    run: FitContext
    device: torch.device
    learners: int
    shrinkage: float
    share: BatchPlan
    """The lists that batches are made of."""
    nets: list[nn.Module] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    """That each net was trained for."""
    curves: Curves = field(default_factory=dict)
    best: Means | None = None
    steps: int = 0
    """Taken by the nets that are done."""
    _first: str | None = None

    def grow(self) -> None:
        """Train the nets."""
        self.curves = {"train": {"loss": []}}
        if self.validation is not None:
            self.curves["validation"] = {name: [] for name in self.run.metric_names}
        with restored_randomness(self.device), gradients():
            state = self._latest()
            while len(self.epochs) < self.learners:
                if not self._add(state):
                    break
                state = None

    def _add(self, state: tuple[dict[str, Any], Weights] | None) -> bool:
        """Train one more net; whether it is worth keeping."""
        training = self._training()
        if state is not None:
            with self._intact():
                training.restore(*state)
        training.finish()
        self.epochs.append(training.epoch)
        self.steps += training.step
        self.curves["train"]["loss"] += training.losses
        for name, means in training.means.items():
            self.curves["validation"][name] += means
        if training.best is None:
            return False
        self.best = training.selection.best
        self.nets.append(self._finished(training.best, len(self.nets)))
        return True

    def _training(self) -> Training:
        number = len(self.nets)
        watched = None
        if self.validation is not None:
            base = summed(self.nets, self.validation, self.device, shrinkage=self.shrinkage)
            watched = Watched(self.validation, base, self.shrinkage if number else 1.0)
        training = Training(
            self.given,
            build(self.given, self.train.n_features, learner=number),
            self._task(),
            self.train,
            watched,
            replace(self.run, progress=self._told(), watch=self._watched()),
            self.device,
            Selection(self.best),
            keep=lambda: self._keep(training),
            share=self.share,
            first_step=self.steps,
        )
        return training

    def _told(self) -> Progress:
        """Progress over all nets, as far as the nets before this one are done."""
        before, total = sum(self.epochs), self.given.epochs * self.learners
        return lambda text, done, _: self.run.progress(text, before + done, total)

    def _watched(self) -> WatchFunction:
        """The metric over all nets, as far as the nets before this one are done."""
        before, total = sum(self.epochs), self.given.epochs * self.learners
        return lambda done, _, mean: self.run.watch(before + done, total, mean)

    def _task(self) -> Task:
        objective = reseed(as_objective(self.given.objective), self.given.seed)
        if self.nets:
            scores = summed(self.nets, self.train, self.device, shrinkage=self.shrinkage)
            train = self.train
            lists = objective.bind(
                train.labels,
                train.offsets,
                train.keys,
                train.weights,
                document_weights=train.document_weights,
            )
            targets = -lists.evaluate(scores, self.steps).gradient
            return ResidualTask(targets, train, self.device)
        kind = LevelTask if self.given.recurrent is not None else ListTask
        return kind(objective, self.train)

    def _finished(self, weights: Weights, learner: int) -> nn.Module:
        net = build(self.given, self.train.n_features, learner=learner)
        net.load_state_dict(weights)
        return net.requires_grad_(False).to(self.device).eval()

    def _keep(self, training: Training) -> None:
        checkpoint = self.run.checkpoint
        if checkpoint is None or not checkpoint.due():
            return
        plain, tensors = training.state()
        done = {"nets": len(self.nets), "epochs": self.epochs, "steps": self.steps}
        done |= {"curves": self.curves, "best": self.best, "module": self._module()}
        for place, net in enumerate(self.nets):
            tensors |= {f"learner{place}.{name}": v for name, v in copied(net).items()}
        with checkpoint.saving(self.steps + training.step) as folder:
            write_state({"done": done, "training": plain}, tensors, folder)

    def _latest(self) -> tuple[dict[str, Any], Weights] | None:
        """The state to go on from, with everything that was done set to it; None at the start."""
        latest = None if self.run.checkpoint is None else self.run.checkpoint.latest()
        if latest is None:
            return None
        plain, tensors = read_state(latest)
        with self._intact():
            done = plain["done"]
            self._check_module(done.get("module"), latest)
            self.epochs, self.steps, self.curves = done["epochs"], done["steps"], done["curves"]
            self.best = None if done["best"] is None else tuple(done["best"])
            weights = [part(tensors, f"learner{place}.") for place in range(done["nets"])]
            self.nets = [self._finished(each, place) for place, each in enumerate(weights)]
            return plain["training"], tensors

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """Say of a state that cannot be taken up that it is damaged, and which it is."""
        try:
            yield
        except UsageError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            latest = None if self.run.checkpoint is None else self.run.checkpoint.latest()
            assert latest is not None
            reason = str(error).splitlines()[-1].strip()
            raise damaged(latest, f"{type(error).__name__}: {reason}") from error

    def _module(self) -> str | None:
        """What tells apart a module of the user's own; it may come from a function of anything."""
        if self._first is None and self.given.module is not None:
            self._first = first_sum(self.given, self.train.n_features)
        return self._first

    def _check_module(self, kept: str | None, state: Path) -> None:
        if self.given.module is not None and kept != self._module():
            raise UsageError(
                f"the checkpoint in {state.parent} belongs to a fit of another module: "
                f"{name_of(self.given.module)} has another structure or begins with other weights. "
                "Give another folder, or delete this one."
            )
