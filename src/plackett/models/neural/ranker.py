"""The neural rankers: parameters and their checks, fitting, scoring and files.

Importing this module does not import PyTorch.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError, require, warn_renamed
from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.models.fit_context import Curves, FitContext, read_learning_curves, write_learning_curves
from plackett.models.parameters import accept_aliases
from plackett.models.ranker import Ranker
from plackett.objectives import Objective

if TYPE_CHECKING:
    from torch import nn


ACTIVATIONS = ("relu", "elu", "gelu", "tanh", "sigmoid", "silu")
_CHOICES: dict[str, tuple[Any, ...]] = {
    "activation": ACTIVATIONS,
    "optimizer": ("adam", "adamw", "adagrad"),
    "schedule": ("constant", "cosine", "linear"),
    "reduction": ("mean", "sum"),
    "recurrent": (None, "rnn", "lstm", "gru"),
    "pooling": ("max", "mean"),
    "score_from": ("both", "state"),
}
_WEIGHTS_FILE = "weights-{}.safetensors"
_GRADIENTS_FILE = "gradients.json"


@dataclass(eq=False)
class BaseNeuralRanker(Ranker):
    """A ranker that adds up the scores of a net and of nets that correct it; see :class:`NeuralRanker`."""

    supports_cluster: ClassVar[bool] = True
    threads_matter: ClassVar[bool] = True  # the order of sums in attention depends on them
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "torch")
    # Not annotated, so that they are no fields (parameters) here; BoostedNeuralRanker declares them.
    learners = 1
    shrinkage = 1.0

    objective: str | Objective = "urank"
    layers: tuple[int, ...] = (128, 64)
    activation: str = "relu"
    batch_norm: float | None = None
    batch_norm_epsilon: float = 1e-5
    dropout: float = 0.0
    noise: float = 0.0
    attention: int = 0
    heads: int = 1
    inducing: int = 0
    latent_cross: bool = False
    local_context: bool = False
    group_size: int = 1
    recurrent: Literal["rnn", "lstm", "gru"] | None = None
    pooling: Literal["max", "mean"] = "max"
    score_from: Literal["both", "state"] = "both"
    module: Any = None
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "constant"
    clip: float | None = None
    follow_train: bool = False
    epochs: int = 100
    patience: int = 20
    batch_lists: int | None = 32
    batch_documents: int | None = None
    reduction: str = "mean"
    seed: int = 0
    device: Any = "auto"
    threads: int | None = None
    transforms: tuple[str, ...] = ("standard",)

    @property
    def optimiser(self) -> str:
        """Deprecated spelling of ``optimizer``."""
        warn_renamed("optimiser", "optimizer")
        return self.optimizer

    @optimiser.setter
    def optimiser(self, value: str) -> None:
        warn_renamed("optimiser", "optimizer")
        self.optimizer = value

    def __setattr__(self, name: str, value: Any) -> None:
        # A torch.device is stored as text, which can be written to files and sent to other processes.
        is_device = name == "device" and type(value).__module__ == "torch"
        super().__setattr__(name, str(value) if is_device else value)

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        require("torch", "safetensors")
        check_parameters(self)
        from plackett.models.neural.batches import BatchPlan
        from plackett.models.neural.boosted import BoostedTraining, train_on_cluster
        from plackett.models.neural.environment import limit_threads, resolve_device
        from plackett.models.neural.scoring import mean_gradients

        if context.cluster is None:
            device, plan = resolve_device(self.device), BatchPlan.whole(self, train)
            training = BoostedTraining(self, train, validation, context, device, plan)
            with limit_threads(self.threads):
                training.finish()
            nets, curves, epochs = training.nets, training.curves, training.epochs
            self._best_step = training.best_step
        else:
            nets, curves, epochs = train_on_cluster(self, train, validation, context)
            self._best_step = None
        self.networks_: list[nn.Module] = nets
        """The fitted nets: modules that map features and offsets of lists to scores."""
        self.curves_: Curves = curves
        """Loss and metrics after each epoch of each net, by part of the data."""
        self._gradients: list[float] | None = self._apply_nets(mean_gradients, train)
        self.epochs_: list[int] = epochs
        """The number of epochs of each net, including the last net if it was discarded."""

    _importance_kinds: ClassVar[tuple[str, ...]] = ("gradient",)

    def _importance(self, kind: str) -> Any:  # noqa: ARG002 - there is one
        if self._gradients is None:
            raise UsageError(
                "the gradients of this net are not known: it was saved by an earlier version, or "
                "its module has none. Use importance(data=validation), which permutes features."
            )
        return self._gradients

    def _apply_nets(self, function: Callable[..., Any], data: Dataset) -> Any:
        """Apply a function to the nets, the data, the device and the factor of corrections."""
        from plackett.models.neural.environment import limit_threads, move_net, resolve_device

        device = resolve_device(self.device)
        nets = [move_net(net, device) for net in self.networks_]
        with limit_threads(self.threads):
            return function(nets, data, device, scale=self.shrinkage)

    def _predict(self, data: Dataset) -> Scores:
        require("torch", "safetensors")
        from plackett.models.neural.scoring import score_nets

        scores: Scores = self._apply_nets(score_nets, data)
        return scores

    def _score_copies(self, copies: Sequence[Ranker], data: Dataset) -> NDArray[np.float64] | None:
        if not isinstance(data.features, np.ndarray) or not all(
            isinstance(ranker, BaseNeuralRanker) for ranker in copies
        ):
            return None
        require("torch", "safetensors")
        from plackett.models.neural.environment import limit_threads
        from plackett.models.neural.scoring import score_together

        with limit_threads(self.threads):
            return score_together(cast("Sequence[BaseNeuralRanker]", copies), data)

    def _write(self, folder: Path) -> None:
        from plackett.models.neural.training import copy_weights
        from plackett.models.neural.weights import write_tensors

        for learner, net in enumerate(self.networks_):
            write_tensors(copy_weights(net), folder / _WEIGHTS_FILE.format(learner + 1))
        write_learning_curves(self.curves_, folder)
        if self._gradients is not None:
            (folder / _GRADIENTS_FILE).write_text(json.dumps(self._gradients), encoding="utf-8")

    def _read(self, folder: Path) -> None:
        require("torch", "safetensors")
        from plackett.models.neural.weights import read_weights

        try:
            check_parameters(self)
        except UsageError as error:
            raise DataError(f"settings of the net: {error}", path=str(folder)) from error
        count = sum(1 for _ in folder.glob(_WEIGHTS_FILE.format("*")))
        paths = [folder / _WEIGHTS_FILE.format(learner + 1) for learner in range(count)]
        if not paths or not all(path.is_file() for path in paths):
            raise DataError(f"must hold {_WEIGHTS_FILE.format(1)} and so on", path=str(folder))
        assert self.n_features_ is not None
        self.curves_, self.epochs_ = read_learning_curves(folder), []
        self._gradients = self._read_gradients(folder / _GRADIENTS_FILE)
        self.networks_ = [
            read_weights(self, self.n_features_, path, learner=learner) for learner, path in enumerate(paths)
        ]

    def _read_gradients(self, path: Path) -> list[float] | None:
        if not path.is_file():
            return None
        try:
            values = np.array(json.loads(path.read_text(encoding="utf-8")), dtype=np.float64)
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(f"holds no gradients: {error}", path=str(path)) from error
        if values.shape != (self.n_features_,) or not np.all(np.isfinite(values)):
            raise DataError(f"must hold {self.n_features_} finite numbers", path=str(path))
        return list(map(float, values))


@accept_aliases
@dataclass(eq=False)
class NeuralRanker(BaseNeuralRanker):
    """A neural net that scores documents, trained on whole lists.

    Parameters
    ----------
    objective
        Loss to minimize: a name or an :class:`~plackett.objectives.Objective`.
    layers
        Widths of the hidden layers; () gives a linear model.
    activation
        relu, elu, gelu, tanh, sigmoid or silu. The last layer is linear.
    batch_norm
        Momentum m of batch normalization on the input and between layers; None disables it. running = m * running +
        (1 - m) * batch (TensorFlow's convention; PyTorch's is 1 - m).
    batch_norm_epsilon
        Added to the variance in batch normalization: 1e-5 as in PyTorch; TensorFlow has 1e-3.
    dropout
        Fraction of the units that is dropped after each layer in training.
    noise
        Deviation of the Gaussian noise that is added to the transformed features in training.
    attention, heads
        Number of self-attention blocks over the documents of a list, on top of the layers, and heads per block; with 0
        blocks, documents are scored independently.
    inducing
        Number of inducing points of each block, through which its documents attend to each other: time and memory
        then grow with the length of a list, not with its square. 0: documents attend to each other directly.
    latent_cross
        Multiply the output of the layers by 1 + that of the attention, instead of scoring the attention alone.
    local_context
        A GRU reads each list in ascending order of the scores without context; its last state contributes to the
        score of each document.
    group_size
        Number of documents that the net scores together; 1 scores documents independently.
    recurrent, pooling, score_from
        A cell (rnn, lstm, gru) that steps through the levels of labels in training (urBoost); how the states of a level
        are combined (max, mean); whether scores are computed from state and document ("both") or from the state alone
        ("state").
    module
        A ``torch.nn.Module`` that maps documents x features to scores, or a function of the number of features that
        returns one. It replaces the net described by the parameters above. The module is copied, not changed. A saved
        model holds its weights, not its code: pass the module again to ``plackett.load(path, module=...)``.
    optimizer, learning_rate, weight_decay
        adam, adamw or adagrad, with its learning rate and weight decay.
    schedule
        Learning rate over the epochs: constant, linear or cosine (both decay to zero).
    clip
        Maximum norm of the gradient of all weights; larger gradients are scaled down to it.
    follow_train
        Also measure the metrics on the training lists after each epoch, for ``curves_``.
    epochs, patience
        Maximum number of passes over the lists. With validation data, training stops after ``patience`` epochs without
        improvement and keeps the weights of the best epoch.
    batch_lists, batch_documents
        Maximum number of lists and of documents in a batch; a longer list forms its own batch.
    reduction
        Whether a step minimizes the mean or the sum of the losses of its lists.
    seed
        Seed of initial weights, order of lists and dropout. The same seed gives the same weights.
    device
        "cpu", "cuda", "cuda:1" or a ``torch.device``; "auto" uses a CUDA or ROCm GPU if available. "mps" and "xpu" must
        be requested explicitly.
    threads
        Number of threads; None uses all.
    transforms
        Transforms of the features, applied first.

    Notes
    -----
    Lists whose documents all have the same label have no gradient and are skipped in training, unless the objective
    keeps them (``one_level="keep"``).

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.NeuralRanker("urank", layers=(16,), epochs=2)
    >>> ranker.fit(pk.synthetic("letor", n_lists=10)).predict(pk.synthetic("letor", n_lists=2)).ndim  # doctest: +SKIP
    1
    """


@accept_aliases
@dataclass(eq=False)
class BoostedNeuralRanker(BaseNeuralRanker):
    """A neural net and further nets, each fitted to the negative gradient of those before it.

    uBoost, and with ``recurrent`` urBoost, of Zhu & Klabjan (2020). The other parameters are those of
    :class:`NeuralRanker` and apply to each net.

    Parameters
    ----------
    learners
        Maximum number of nets. With validation data, a net that does not improve the metric is discarded and ends the
        fit.
    shrinkage
        Factor by which the scores of all nets but the first are multiplied.

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.BoostedNeuralRanker("urank", layers=(8,), learners=2, epochs=1)
    >>> ranker.fit(pk.synthetic("letor", n_lists=10)).predict(pk.synthetic("letor", n_lists=2)).ndim  # doctest: +SKIP
    1
    """

    learners: int = 5
    shrinkage: float = 1.0


def check_parameters(ranker: BaseNeuralRanker) -> None:
    """Raise UsageError if no net can be built or trained with the parameters."""
    for name, allowed in _CHOICES.items():
        value = getattr(ranker, name)
        if value not in allowed:
            listed = ", ".join(map(repr, allowed))
            raise UsageError(f"{name} must be one of {listed}, got {value!r}.")
    _check_numbers(ranker)
    _check_structure(ranker)
    if ranker.threads is not None and not _is_count(ranker.threads):
        raise UsageError(f"threads must be a positive number or None for all: {ranker.threads!r}.")
    if not isinstance(ranker.device, str):
        raise UsageError(f'device must be "auto", "cpu", "cuda", "cuda:1" or a torch.device, got {ranker.device!r}.')


def _check_numbers(ranker: BaseNeuralRanker) -> None:
    for name in ("heads", "group_size", "epochs", "patience", "batch_lists", "batch_documents", "learners"):
        value, is_optional = getattr(ranker, name), name.startswith("batch")
        if not _is_count(value) and not (is_optional and value is None):
            kind = "a positive whole number" + (" or None" if is_optional else "")
            raise UsageError(f"{name} must be {kind}, got {value!r}.")
    for name in ("learning_rate", "clip", "batch_norm", "batch_norm_epsilon", "shrinkage"):
        value, is_optional = getattr(ranker, name), name in ("clip", "batch_norm")
        if not (_is_nonnegative(value) and value > 0) and not (is_optional and value is None):
            raise UsageError(f"{name} must be a positive number, got {value!r}.")
    layers, momentum = ranker.layers, ranker.batch_norm
    rules = {
        "layers": (isinstance(layers, (tuple, list)) and all(map(_is_count, layers)), "must be positive whole numbers"),
        "attention": (_is_count(ranker.attention, least=0), "is a number of blocks, 0 for none"),
        "inducing": (_is_count(ranker.inducing, least=0), "is a number of points, 0 for none"),
        "batch_norm": (momentum is None or momentum < 1, "is a momentum below 1"),
        "weight_decay": (_is_nonnegative(ranker.weight_decay), "must not be negative"),
        "noise": (_is_nonnegative(ranker.noise), "must not be negative"),
        "dropout": (_is_nonnegative(ranker.dropout) and ranker.dropout < 1, "must be at least 0 and below 1"),
        "seed": (type(ranker.seed) is int, "must be a whole number"),
    }
    for name, (is_valid, rule) in rules.items():
        if not is_valid:
            raise UsageError(f"{name} {rule}, got {getattr(ranker, name)!r}.")


def _check_structure(ranker: BaseNeuralRanker) -> None:
    if ranker.batch_lists is None and ranker.batch_documents is None:
        raise UsageError("give batch_lists, batch_documents or both: batches need a limit.")
    variants = {
        "attention": ranker.attention > 0,
        "group_size": ranker.group_size > 1,
        "recurrent": ranker.recurrent is not None,
        "local_context": bool(ranker.local_context),
        "module": ranker.module is not None,
    }
    used = [name for name, is_used in variants.items() if is_used]
    if len(used) > 1:
        raise UsageError(f"{' and '.join(used)} cannot be combined; choose one.")
    if not ranker.attention and (ranker.inducing or ranker.latent_cross):
        name = "inducing" if ranker.inducing else "latent_cross"
        raise UsageError(f"{name} belongs to attention; give the number of its blocks, for example attention=2.")
    if (ranker.attention or ranker.recurrent or ranker.local_context) and not ranker.layers:
        raise UsageError(f"{used[0]} needs the output of a layer; give at least one.")
    if ranker.attention and ranker.layers[-1] % ranker.heads:
        raise UsageError(f"heads must divide the width of the last layer, got {ranker.heads} and {ranker.layers[-1]}.")


def _is_count(value: Any, least: int = 1) -> bool:
    return type(value) is int and value >= least


def _is_nonnegative(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf
