"""The loop that trains one net, chooses the best weights, and can be taken up again.

Everything random is a function of the seed and the number of the step or epoch, so the state of a
fit is: the weights, the optimizer's own numbers, the best weights so far, and how far it is.

Scores of whole data sets by fitted nets.

Where a net is trained and run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plackett.base.errors import DataError, UsageError
from plackett.base.kernels import kernel_threads
from plackett.base.ragged import Rows, Scores
from plackett.data.dataset import Dataset
from plackett.models.neural.autograd import NotFiniteError, as_float64
from plackett.models.neural.batch_plan import BatchPlan
from plackett.models.neural.batches import FeatureRows, batch_of, blocks
from plackett.models.neural.loss import Task
from plackett.models.neural.optimizer import Optimizer
from plackett.models.neural.ranker import NetSettings
from plackett.models.neural.scorers import draws, seed_step
from plackett.models.neural.user_module import ModuleScorer
from plackett.models.ranker import SCORING_BLOCK, FitContext
from plackett.models.selection import Selection, measure


def score(net: nn.Module, data: Dataset, device: torch.device) -> Scores:
    """Scores of all documents; the net is left in the mode it was in."""
    features = FeatureRows(data.features, device)
    out = np.empty(data.n_docs)
    training = net.training
    net.eval()
    # A module of the user's own may keep tensors that training needs again.
    with torch.no_grad() if isinstance(net, ModuleScorer) else torch.inference_mode():
        for batch in blocks(data.offsets, SCORING_BLOCK):
            found = net(features[batch.documents], batch.offsets)
            out[batch.documents] = as_float64(found)
    net.train(training)
    return out


def summed(
    nets: Sequence[nn.Module], data: Dataset, device: torch.device, *, shrinkage: float
) -> Scores:
    """The first net's scores plus the others', each times the shrinkage."""
    total = np.zeros(data.n_docs)
    for place, net in enumerate(nets):
        total += score(net, data, device) * (shrinkage if place else 1.0)
    return total


Weights = dict[str, Tensor]
Curves = dict[str, dict[str, list[float]]]
"""Part ("train", "validation") to loss or metric to its mean after each epoch."""


@dataclass(frozen=True)
class Watched:
    """Validation lists, and the scores that earlier nets give them."""

    data: Dataset
    base: Scores
    shrinkage: float

    def scores(self, net: nn.Module, device: torch.device) -> Scores:
        """Scores of the earlier nets and this one together."""
        return self.base + self.shrinkage * score(net, self.data, device)


@dataclass
class Training:
    """One net's training and how far it is."""

    given: NetSettings
    net: nn.Module
    task: Task
    train: Dataset
    watched: Watched | None
    run: FitContext
    device: torch.device
    selection: Selection
    keep: Callable[[], None]
    """Called between steps, to keep the state if it is time."""
    share: BatchPlan
    """The lists that batches are made of, which other workers may have a part of."""
    first_step: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = 0.0
    losses: list[float] = field(default_factory=list)
    means: dict[str, list[float]] = field(default_factory=dict)
    best: Weights | None = None

    def __post_init__(self) -> None:
        self.net.to(self.device).train()
        self._optimizer = Optimizer(self.net, self.given)
        self._features = FeatureRows(self.train.features, self.device)
        self._losses = self.share.losses(self.net, self.task)
        self._draws = draws(self.given)
        if len(self.share.positions) == 0:
            raise DataError("no list has two levels of labels; there is nothing to learn from.")
        if self.watched is not None:
            self.means = {name: [] for name in self.run.metric_names}

    def finish(self) -> None:
        """Train until there were enough epochs or validation stops improving."""
        while not self.is_over:
            self._finish_epoch()
        if self.watched is None:
            self.best = copied(self.net)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        steps_since_best = (
            self.watched is not None and self.selection.steps_since_best >= self.given.patience
        )
        return self.epoch >= self.given.epochs or (self.epoch > 0 and steps_since_best)

    def _finish_epoch(self) -> None:
        batches = self.share.batches(self.given, self.epoch)
        for positions in batches[self.batch :]:
            done = (self.epoch + self.batch / len(batches)) / self.given.epochs
            self._take_step(positions, done)
            self.batch += 1
            if self.batch < len(batches):
                self.keep()
        self.losses.append(self.loss / len(self.share.positions))
        self.epoch, self.batch, self.loss = self.epoch + 1, 0, 0.0
        self._measure()
        self.run.progress(self._status(), self.epoch, self.given.epochs)
        if self.watched is not None:
            latest = self.means[self.run.metric_names[0]][-1]
            self.run.watch(self.epoch, self.given.epochs, latest)
        self.keep()

    def _take_step(self, positions: Rows, done: float) -> None:
        number = self.first_step + self.step
        if self._draws:
            seed_step(self.given.seed, self.share.noise(number), self.device)
        own = self.share.partition.to_local(positions)
        batch = batch_of(self.train.offsets, own) if len(own) else None
        features = self._features[slice(0, 0) if batch is None else batch.documents]
        try:
            total = self._losses(features, batch, number)
        except NotFiniteError as error:
            raise self._diverged(str(error)) from error
        divisor = self.share.divisor(len(positions), self.given.reduction)
        self._optimizer.step(total / divisor, done)
        self.loss += self.share.added(total)
        self.step += 1

    def _measure(self) -> None:
        if not self._optimizer.is_finite():
            raise self._diverged("the weights grew beyond all bounds.")
        if self.watched is None:
            return
        scores = self.watched.scores(self.net, self.device)
        if not np.isfinite(scores).all():
            raise self._diverged("the net gives validation documents scores that are not finite.")
        means = measure(scores, self.watched.data, self.run.metrics, self.run.worker_group)
        for name, mean in zip(self.run.metric_names, means, strict=True):
            self.means[name].append(mean)
        if self.selection.offer(means):
            self.best = copied(self.net)

    def _diverged(self, what: str) -> UsageError:
        if self.step == 0:
            return UsageError(
                f"before its first step, {what} Its input may be too large: scale features "
                '(transforms=("standard",)), or look into the module if it is your own.'
            )
        rate, step = self.given.learning_rate, self.step
        return UsageError(
            f"training diverged after {step} steps: {what} Use a smaller learning_rate than "
            f"{rate:g}, or clip gradients (clip=5.0)."
        )

    def _status(self) -> str:
        text = "epochs"
        if not math.isnan(self.losses[-1]):  # some objectives have gradients and no value
            text += f", loss {self.losses[-1]:.4g}"
        if self.watched is None:
            return text
        name = self.run.metric_names[0]
        return f"{text}, validation {name} {self.means[name][-1]:.4f}"

    def state(self) -> tuple[dict[str, Any], Weights]:
        """Plain data and tensors from which :meth:`restore` goes on."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        chosen = self.selection
        plain |= {"best": chosen.best, "best_step": chosen.best_step, "offered": chosen.steps}
        tensors = {f"net.{name}": value for name, value in copied(self.net).items()}
        tensors |= {f"best.{name}": value for name, value in (self.best or {}).items()}
        tensors |= {f"optimizer.{name}": v for name, v in self._optimizer.state().items()}
        return plain, tensors

    def restore(self, plain: dict[str, Any], tensors: Weights) -> None:
        """Go on from a state; one that is damaged raises whatever it comes to."""
        for name in _PLAIN:
            setattr(self, name, plain[name])
        best = None if plain["best"] is None else tuple(plain["best"])
        self.selection = Selection(best, plain["best_step"], plain["offered"])
        self.net.load_state_dict(part(tensors, "net."))
        self.best = part(tensors, "best.") or None
        # PyTorch may have put other tensors in the place of those that the optimizer moves.
        self._optimizer = Optimizer(self.net, self.given)
        self._optimizer.restore(part(tensors, "optimizer."))


_PLAIN = ("first_step", "epoch", "batch", "step", "loss", "losses", "means")


def copied(net: nn.Module) -> Weights:
    """The weights as they are now, on the processor, each with memory of its own.

    Weights may be views of one vector, tied to each other, or spread over memory; a file takes
    none of these.
    """
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in net.state_dict().items()
    }


def part(tensors: Weights, prefix: str) -> Weights:
    """Those whose names begin with the prefix, by the rest of their names."""
    return {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}


def as_device(name: str) -> torch.device:
    """The device of a name; "auto" is a GPU of NVIDIA's or AMD's if there is one.

    Others, such as "mps" and "xpu", are for those who ask for them: not every operation of
    PyTorch's is there, nor gives the same numbers.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        # A device may exist and lie about it until it is asked for a number.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        raise UsageError(
            f'device {name!r} cannot be used here: {reason}. Use "auto" or "cpu"; a model that '
            'was saved takes it by set_params(device="cpu").'
        ) from error
    return device


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let PyTorch and compiled kernels use at most so many threads inside the block."""
    with kernel_threads(count):
        if count is None:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
