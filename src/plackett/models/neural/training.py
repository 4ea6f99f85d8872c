r"""The loop that trains one net, selects the best weights and can be resumed, and scoring.

All randomness is a function of the seed and the number of the step or epoch.

**Optimizer.** The weights of a net are views of one flat tensor, and so are their gradients. A step is therefore one
call of PyTorch's fused kernel; for small nets, the bookkeeping of ``Optimizer.step()`` takes longer than the kernel
(``benchmarks/optimizer.py``).

========  =====================================================================================
adam      :math:`m \leftarrow .9 m + .1 g,\; v \leftarrow .999 v + .001 g^2,\;
          w \leftarrow w - \eta\,\hat m / (\sqrt{\hat v} + 10^{-8})` with :math:`\hat m, \hat v`
          corrected for their start at zero (Kingma & Ba 2015)
adamw     the same after :math:`w \leftarrow (1 - \eta\lambda) w` (Loshchilov & Hutter 2019)
adagrad   :math:`v \leftarrow v + g^2,\; w \leftarrow w - \eta\,g / (\sqrt v + 10^{-10})`, with v
          starting at 0.1 as in TensorFlow, which Bruch et al. (2020) used
========  =====================================================================================

For adam and adagrad, weight decay adds :math:`\lambda w` to the gradient.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from plackett.base.errors import DataError, Message, Setting, UsageError
from plackett.base.ragged import Rows, Scores
from plackett.data import Dataset
from plackett.models.fit_context import FitContext, Selection, latest
from plackett.models.neural.batches import BatchPlan, FeatureRows, make_batch
from plackett.models.neural.environment import seed_step
from plackett.models.neural.loss import NetLoss, NotFiniteError, make_loss_module
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.neural.scoring import score_net

_ADAGRAD_START = 0.1
_SMALLEST_NORMAL = 1e-30  # squared gradients get this small; float16 ends at 6e-5


class Optimizer:
    """The flat weights of a net, their gradient, and the state of the optimizer."""

    fused_devices: ClassVar[tuple[str, ...]] = ("cpu",)
    """Whether the device has the fused kernels; other devices use the plain form on the vector."""

    def __init__(self, net: nn.Module, ranker: BaseNeuralRanker) -> None:
        self._weights, self._gradient = _flatten_weights(net)
        self._ranker = ranker
        start = _ADAGRAD_START if ranker.optimizer == "adagrad" else 0.0
        self._moments = torch.zeros_like(self._weights)
        self._squares = torch.full_like(self._weights, start)
        fused = self._weights.device.type in self.fused_devices
        self._options = _make_options(ranker, fused=fused)
        self._count = torch.zeros((), dtype=torch.float32, device="cpu")

    def step(self, loss: Tensor, progress: float) -> None:
        """Take one step; ``progress`` is the finished part of the training, from 0 to 1."""
        ranker = self._ranker
        self._gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        if ranker.clip is not None:
            norm = torch.linalg.vector_norm(self._gradient).item()
            if norm > ranker.clip:
                self._gradient.mul_(ranker.clip / norm)
        with torch.no_grad():
            self._update(ranker.learning_rate * _rate_factor(ranker.schedule, progress))

    def _update(self, rate: float) -> None:
        self._options["lr"] = rate
        weights, gradient, squares = [self._weights], [self._gradient], [self._squares]
        if self._ranker.optimizer == "adagrad":
            adagrad(weights, gradient, squares, [self._count], **self._options)
        else:
            update = adamw if self._ranker.optimizer == "adamw" else adam
            moments = [self._moments]
            update(weights, gradient, moments, squares, [], [self._count], **self._options)

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return bool(torch.isfinite(self._weights).all())

    def state(self) -> dict[str, Tensor]:
        """The state of the optimizer, without the weights."""
        parts = {"count": self._count, "moments": self._moments, "squares": self._squares}
        return {name: part.cpu().clone() for name, part in parts.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from a state."""
        self._count.copy_(state["count"])
        self._moments.copy_(state["moments"])
        self._squares.copy_(state["squares"])


def _make_options(ranker: BaseNeuralRanker, *, fused: bool) -> dict[str, Any]:
    """Arguments of the functions of ``torch.optim``, without the learning rate."""
    options = {"weight_decay": ranker.weight_decay, "fused": fused, "foreach": False}
    options |= {"maximize": False, "differentiable": False, "has_complex": False}
    if ranker.optimizer == "adagrad":
        return options | {"lr_decay": 0.0, "eps": 1e-10, "has_sparse_grad": False}
    return options | {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}


def _flatten_weights(net: nn.Module) -> tuple[Tensor, Tensor]:
    """Make the trained weights and their gradients views of one vector each; return the vectors."""
    trained = [p for p in net.parameters() if p.requires_grad]
    _check(trained)
    weights = torch.cat([p.detach().reshape(-1) for p in trained])
    gradient = torch.zeros_like(weights)
    start = 0
    for p in trained:
        stop = start + p.numel()
        p.data = weights[start:stop].view_as(p)
        p.grad = gradient[start:stop].view_as(p)
        start = stop
    return weights, gradient


def _check(trained: list[nn.Parameter]) -> None:
    """Raise if weights cannot form one vector of floats, which only user modules may cause."""
    if not trained:
        raise UsageError("a net must have trained weights; this one has none, or all of them are fixed.")
    kinds = {(p.dtype, p.device) for p in trained}
    if len(kinds) > 1 or not trained[0].is_floating_point():
        listed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise UsageError(f"trained weights must all be of one floating-point type, got {listed}.")
    if torch.finfo(trained[0].dtype).tiny > _SMALLEST_NORMAL:
        raise UsageError(
            f"weights in {trained[0].dtype} cannot be trained: the optimizer's state would "
            "underflow to zero or overflow. Use bfloat16, float32 or float64."
        )


def _rate_factor(schedule: str, progress: float) -> float:
    """The learning rate relative to its initial value."""
    if schedule == "constant":
        return 1.0
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


Tensors = dict[str, Tensor]
_PROGRESS_FIELDS = ("first_step", "epoch", "batch", "step", "loss_sum", "losses", "means")


@dataclass(frozen=True)
class ValidationScores:
    """Validation lists, and the scores that earlier nets give them."""

    data: Dataset
    base: Scores
    scale: float

    def add(self, net: nn.Module, device: torch.device) -> Scores:
        """The sum of the scores of the earlier nets and this one."""
        return self.base + self.scale * score_net(net, self.data, device)


@dataclass
class Training:
    """The training of one net and its progress."""

    ranker: BaseNeuralRanker
    net: nn.Module
    loss: NetLoss
    train: Dataset
    validation: ValidationScores | None
    context: FitContext
    device: torch.device
    selection: Selection
    save_if_due: Callable[[], None]
    """Called between steps, to save a checkpoint if it is time."""
    plan: BatchPlan
    followed: ValidationScores | None = None
    """Training lists, if the metrics are to be measured on them too."""
    first_step: int = 0
    """Number of steps that earlier nets have taken."""
    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    """Over the lists of the current epoch."""
    losses: list[float] = field(default_factory=list)
    means: dict[str, list[float]] = field(default_factory=dict)
    """Metric -> its mean on validation after each epoch."""
    train_means: dict[str, list[float]] = field(default_factory=dict)
    """The same on the training lists, if they are followed."""
    best: Tensors | None = None
    stopped: bool = False
    """Whether a callback has ended the training."""

    def __post_init__(self) -> None:
        self.net.to(self.device).train()
        self._optimizer = Optimizer(self.net, self.ranker)
        self._features = FeatureRows(self.train.features, self.device)
        self._loss_module = make_loss_module(self.net, self.loss, self.plan.worker_group)
        ranker = self.ranker
        self._is_random = ranker.module is not None or ranker.group_size > 1 or ranker.dropout > 0 or ranker.noise > 0
        if len(self.plan.positions) == 0:
            raise DataError("no list has two levels of labels; there is nothing to learn from.")
        if self.validation is not None:
            self.means = {name: [] for name in self.context.metric_names}
        if self.followed is not None:
            self.train_means = {name: [] for name in self.context.metric_names}

    def finish(self) -> None:
        """Train until the last epoch or until validation stops improving."""
        while not self.is_finished:
            self._finish_epoch()
        if self.validation is None:
            self.best = copy_weights(self.net)

    @property
    def is_finished(self) -> bool:
        """Whether no epoch is left, or validation has stopped improving."""
        waited = self.selection.steps_since_best >= self.ranker.patience
        is_late = self.validation is not None and self.epoch > 0 and waited
        return self.epoch >= self.ranker.epochs or is_late or self.stopped

    def _finish_epoch(self) -> None:
        batches = self.plan.batches(self.ranker, self.epoch)
        for positions in batches[self.batch :]:
            progress = (self.epoch + self.batch / len(batches)) / self.ranker.epochs
            self._take_step(positions, progress)
            self.batch += 1
            if self.batch < len(batches):
                self.save_if_due()
        self.losses.append(self.loss_sum / len(self.plan.positions))
        self.epoch, self.batch, self.loss_sum = self.epoch + 1, 0, 0.0
        self._validate()
        self.context.progress(self._status(), self.epoch, self.ranker.epochs)
        if self.validation is not None:
            mean = self.means[self.context.metric_names[0]][-1]
            self.context.watch(self.epoch, self.ranker.epochs, mean)
        metrics = latest({"train": {"loss": self.losses}, "validation": self.means})
        self.stopped = self.context.should_stop(self.epoch, self.ranker.epochs, metrics)
        self.save_if_due()

    def _take_step(self, positions: Rows, progress: float) -> None:
        number = self.first_step + self.step
        if self._is_random:
            seed_step(self.ranker.seed, self.plan.noise_step(number), self.device)
        local = self.plan.partition.to_local(positions)
        batch = make_batch(self.train.offsets, local) if len(local) else None
        features = self._features[slice(0, 0) if batch is None else batch.documents]
        if self.ranker.noise > 0:
            features = features + self.ranker.noise * torch.randn_like(features)
        try:
            total = self._loss_module(features, batch, number)
        except NotFiniteError as error:
            raise self._diverged(str(error)) from error
        divisor = self.plan.divisor(len(positions), self.ranker.reduction)
        self._optimizer.step(total / divisor, progress)
        self.loss_sum += self.plan.sum_over_workers(total)
        self.step += 1

    def _validate(self) -> None:
        if not self._optimizer.is_finite():
            raise self._diverged("some weights are no longer finite.")
        if self.followed is not None:
            scores = self.followed.add(self.net, self.device)
            self.context.measure(scores, self.followed.data, self.train_means)
        if self.validation is None:
            return
        scores = self.validation.add(self.net, self.device)
        if not np.isfinite(scores).all():
            raise self._diverged("scores of validation documents are not finite.")
        if self.selection.offer(self.context.measure(scores, self.validation.data, self.means)):
            self.best = copy_weights(self.net)

    def _diverged(self, reason: str) -> UsageError:
        if self.step == 0:
            return UsageError(
                Message(
                    f"before its first step, {reason} The features may be too large: scale them (",
                    Setting("transforms", ("standard",)),
                    "), or check your module.",
                )
            )
        return UsageError(
            Message(
                f"training diverged after {self.step} steps: {reason} Use a smaller ",
                Setting("learning_rate"),
                f" than {self.ranker.learning_rate:g}, or clip gradients (",
                Setting("clip", 5.0),
                ").",
            )
        )

    def _status(self) -> str:
        text = "epochs"
        if not math.isnan(self.losses[-1]):  # some objectives have gradients and no value
            text += f", loss {self.losses[-1]:.4g}"
        if self.validation is None:
            return text
        name = self.context.metric_names[0]
        return f"{text}, validation {name} {self.means[name][-1]:.4f}"

    def state(self) -> tuple[dict[str, Any], Tensors]:
        """Plain data and tensors from which :meth:`restore` can continue."""
        plain = {name: getattr(self, name) for name in _PROGRESS_FIELDS}
        selection = self.selection
        plain |= {"best": selection.best, "best_step": selection.best_step, "offered": selection.steps}
        plain["train_means"] = self.train_means
        parts = {"net": copy_weights(self.net), "best": self.best or {}, "optimizer": self._optimizer.state()}
        return plain, {f"{part}.{k}": v for part, named in parts.items() for k, v in named.items()}

    def restore(self, plain: dict[str, Any], tensors: Tensors) -> None:
        """Continue from a state; a damaged one raises whatever error it causes."""
        for name in _PROGRESS_FIELDS:
            setattr(self, name, plain[name])
        self.train_means = plain.get("train_means", self.train_means)
        best = None if plain["best"] is None else tuple(plain["best"])
        self.selection = Selection(best, plain["best_step"], plain["offered"])
        self.net.load_state_dict(select_prefix(tensors, "net."))
        self.best = select_prefix(tensors, "best.") or None
        # Loading may have replaced the tensors that the optimizer updates.
        self._optimizer = Optimizer(self.net, self.ranker)
        self._optimizer.restore(select_prefix(tensors, "optimizer."))


def copy_weights(net: nn.Module) -> Tensors:
    """Copy the weights to the CPU, each into separate contiguous memory, as files need it."""
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in net.state_dict().items()
    }


def select_prefix(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors whose names begin with the prefix, which is removed."""
    return {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
