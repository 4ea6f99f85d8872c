"""A neural net for any objective.

The parameters that all neural rankers share, and their checks. Nothing here needs PyTorch.

What neural rankers share: fitting, scoring and files, in terms of a row of nets.

Neural nets that correct each other: uBoost and urBoost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from plackett.base.deprecation import rename_deprecated, warn_renamed
from plackett.base.errors import DataError, UsageError
from plackett.base.optional import require
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.ranker import FitContext, Ranker
from plackett.objectives import Objective

if TYPE_CHECKING:
    from torch import nn


ACTIVATIONS = ("relu", "elu", "gelu", "tanh", "sigmoid", "silu")
OPTIMIZERS = ("adam", "adamw", "adagrad")
SCHEDULES = ("constant", "cosine", "linear")
REDUCTIONS = ("mean", "sum")
CELLS = (None, "rnn", "lstm", "gru")
POOLINGS = ("max", "mean")
CARRIES = ("both", "state")


@dataclass
class NetSettings(Ranker, ABC):
    """Parameters of a net and of its training; :class:`NeuralRanker` describes them."""

    objective: str | Objective = "urank"
    layers: tuple[int, ...] = (128, 64)
    activation: str = "relu"
    batch_norm: float | None = None
    dropout: float = 0.0
    attention: int = 0
    heads: int = 1
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
        # A torch.device is kept as its text, which files and other processes can take.
        is_device = name == "device" and type(value).__module__ == "torch"
        super().__setattr__(name, str(value) if is_device else value)


def check_settings(given: NetSettings) -> None:
    """Refuse what no net can be built from or trained with."""
    _check_choices(given)
    _check_numbers(given)
    _check_structure(given)
    _check_surroundings(given)


def _check_choices(given: NetSettings) -> None:
    choices: dict[str, tuple[Any, ...]] = {
        "activation": ACTIVATIONS,
        "optimizer": OPTIMIZERS,
        "schedule": SCHEDULES,
        "reduction": REDUCTIONS,
        "recurrent": CELLS,
        "pooling": POOLINGS,
        "score_from": CARRIES,
    }
    for name, allowed in choices.items():
        value = getattr(given, name)
        if value not in allowed:
            listed = ", ".join(repr(each) for each in allowed)
            raise UsageError(f"{name} must be one of {listed}, got {value!r}.")


def _check_numbers(given: NetSettings) -> None:
    if not isinstance(given.layers, (tuple, list)) or not all(_count(w) for w in given.layers):
        raise UsageError(f"layers must be positive whole numbers, got {given.layers!r}.")
    for name in ("heads", "group_size", "epochs", "patience"):
        if not _count(getattr(given, name)):
            value = getattr(given, name)
            raise UsageError(f"{name} must be a positive whole number, got {value!r}.")
    if type(given.attention) is not int or given.attention < 0:
        raise UsageError(f"attention is a number of blocks, 0 for none, got {given.attention!r}.")
    for name, lowest in (("learning_rate", 0.0), ("clip", 0.0), ("batch_norm", 0.0)):
        value = getattr(given, name)
        if not (value is None and name != "learning_rate") and not _number(value, lowest):
            raise UsageError(f"{name} must be a positive number, got {value!r}.")
    if given.batch_norm is not None and not given.batch_norm < 1:
        raise UsageError(f"batch_norm is a momentum below 1, got {given.batch_norm!r}.")
    if not _number(given.weight_decay, -1.0) or given.weight_decay < 0:
        raise UsageError(f"weight_decay must not be negative, got {given.weight_decay!r}.")
    if not _number(given.dropout, -1.0) or not 0 <= given.dropout < 1:
        raise UsageError(f"dropout must be at least 0 and below 1, got {given.dropout!r}.")


def _check_surroundings(given: NetSettings) -> None:
    if type(given.seed) is not int:
        raise UsageError(f"seed must be a whole number, got {given.seed!r}.")
    if given.threads is not None and not _count(given.threads):
        raise UsageError(f"threads must be a positive number or None for all: {given.threads!r}.")
    if not isinstance(given.device, str):
        raise UsageError(
            'device must be "auto", "cpu", "cuda", "cuda:1" or a torch.device, got '
            f"{given.device!r}."
        )


def _check_structure(given: NetSettings) -> None:
    for name in ("batch_lists", "batch_documents"):
        value = getattr(given, name)
        if value is not None and not _count(value):
            raise UsageError(f"{name} must be a positive whole number or None, got {value!r}.")
    if given.batch_lists is None and given.batch_documents is None:
        raise UsageError("give batch_lists, batch_documents or both: batches need a limit.")
    extras = {
        "attention": given.attention > 0,
        "group_size": given.group_size > 1,
        "recurrent": given.recurrent is not None,
        "module": given.module is not None,
    }
    used = [name for name, on in extras.items() if on]
    if len(used) > 1:
        raise UsageError(f"{' and '.join(used)} cannot be combined; choose one.")
    if (given.attention or given.recurrent) and not given.layers:
        raise UsageError(f"{used[0]} works on the last of the layers; give at least one.")
    if given.attention and given.layers[-1] % given.heads:
        raise UsageError(
            f"heads must divide the last of the layers, got {given.heads} and {given.layers[-1]}."
        )


def _count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _number(value: Any, above: float) -> bool:
    return type(value) in (int, float) and above < value < float("inf")


T = TypeVar("T")
Curves = dict[str, dict[str, list[float]]]
_FILE = "weights-{}.safetensors"


@dataclass
class Net(NetSettings):
    """A ranker whose score is that of a net, plus those of nets that correct it."""

    supports_cluster: ClassVar[bool] = True
    threads_matter: ClassVar[bool] = True  # attention sums in an order that depends on them
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "torch")

    @property
    @abstractmethod
    def _learners(self) -> int:
        """Nets at most."""

    @property
    @abstractmethod
    def _shrinkage(self) -> float:
        """What the scores of the nets after the first are multiplied with."""

    def _fit(self, train: Dataset, validation: Dataset | None, run: FitContext) -> None:
        require("torch", "safetensors")
        check_settings(self)
        from plackett.models.neural.batch_plan import BatchPlan
        from plackett.models.neural.distributed import trained, trained_together
        from plackett.models.neural.training import as_device, threads

        if run.cluster is None:
            with threads(self.threads):
                device = as_device(self.device)
                found = trained(self, train, validation, run, device, BatchPlan.whole(train))
        else:
            found = trained_together(self, train, validation, run)
        self.networks_: list[nn.Module] = found.nets
        """The fitted nets: modules that map features and offsets of lists to scores."""
        self.curves_: Curves = found.curves
        """Loss and metrics after each epoch of each net, by part of the data."""
        self.epochs_: list[int] = found.epochs
        """How many epochs each net was trained for, also one that was left out in the end."""

    def _predict(self, data: Dataset) -> Scores:
        require("torch", "safetensors")
        from plackett.models.neural.training import as_device, summed, threads

        device = as_device(self.device)
        nets = [net.to(device) for net in self.networks_]
        with threads(self.threads):
            return summed(nets, data, device, shrinkage=self._shrinkage)

    def _write(self, folder: Path) -> None:
        from plackett.models.neural.weights import write_weights

        for place, net in enumerate(self.networks_):
            write_weights(net, folder / _FILE.format(place + 1))

    def _read(self, folder: Path) -> None:
        require("torch", "safetensors")
        from plackett.models.neural.weights import read_own_weights, read_weights

        try:
            check_settings(self)
        except UsageError as error:
            raise DataError(f"settings of the net: {error}", path=str(folder)) from error
        count = sum(1 for _ in folder.glob(_FILE.format("*")))
        found = [folder / _FILE.format(place + 1) for place in range(count)]
        if not found or not all(path.is_file() for path in found):
            raise DataError(f"must hold {_FILE.format(1)} and so on", path=str(folder))
        assert self.n_features_ is not None
        self.curves_, self.epochs_ = {}, []  # not kept with the model
        if self.module is not None:
            self.networks_ = [read_own_weights(self, self.n_features_, path) for path in found]
            return
        self.networks_ = [
            read_weights(self, self.n_features_, path, learner=place)
            for place, path in enumerate(found)
        ]


def _with_old_names(kind: type[T]) -> type[T]:
    """Let the constructor take deprecated parameter names."""
    initialize = kind.__init__

    @wraps(initialize)
    def init(self: Any, *args: Any, **parameters: Any) -> None:
        initialize(self, *args, **rename_deprecated(parameters))

    kind.__init__ = init  # type: ignore[method-assign]
    return kind


@_with_old_names
@dataclass
class NeuralRanker(Net):
    """A neural net that scores documents, trained on whole lists.

    Parameters
    ----------
    objective
        Name or object.
    layers
        Widths of the hidden layers; () is a linear model.
    activation
        relu, elu, gelu, tanh, sigmoid or silu. The last layer is linear.
    batch_norm
        Normalise the input and between layers over each batch, with this momentum m:
        running = m * running + (1 - m) * batch (TensorFlow's convention; PyTorch's is 1 - m).
    dropout
        Share of the units that is dropped after each layer while training.
    attention, heads
        Number of blocks of self-attention over the documents of a list, on top of the layers, and
        the number of heads of each; 0: documents are scored one by one.
    group_size
        Documents that the net sees and scores together; 1: one by one.
    recurrent, pooling, score_from
        A cell (rnn, lstm, gru) that goes down the levels of labels while training (urBoost);
        how the states of a level become one (max, mean); whether scores come from state and
        document ("both") or from the state alone ("state").
    module
        A ``torch.nn.Module`` of your own that maps documents x features to scores, or a function
        of the number of features that makes one; takes the place of all of the above.
        It is copied, not changed. A saved model holds its weights, not its code:
        ``plackett.load(path, module=...)`` takes it again.
    optimizer, learning_rate, weight_decay
        adam, adamw or adagrad.
    schedule
        The learning rate over the epochs: constant, linear or cosine (both down to zero).
    clip
        Norm that the gradient of all weights together is cut to.
    epochs, patience
        Passes over the lists at most; with validation data, stop after so many without a better
        metric, and take the weights of the best.
    batch_lists, batch_documents
        Lists in a batch, and documents in a batch, at most; a longer list is a batch of its own.
    reduction
        Whether a step goes down the mean or the sum of the losses of its lists.
    seed
        For first weights, order of lists and dropout. The same seed gives the same weights.
    device
        "cpu", "cuda", "cuda:1" or a ``torch.device``; "auto": a GPU if there is one. "mps" and
        "xpu" only where asked for.
    threads
        Number of threads; None: all.
    transforms
        Applied to features first.

    Notes
    -----
    Lists of one level of labels have no gradient and are left out of training.
    """

    @property
    def _learners(self) -> int:
        return 1

    @property
    def _shrinkage(self) -> float:
        return 1.0


@_with_old_names
@dataclass
class BoostedNeuralRanker(Net):
    """A neural net and further nets, each fitted to the negative gradient of the ones before.

    uBoost, and with ``recurrent`` urBoost, of Zhu & Klabjan (2020). All other parameters are those
    of :class:`NeuralRanker`; they hold for each of the nets.

    Parameters
    ----------
    learners
        Nets at most. With validation data, a net that does not improve the metric is left out
        and is the last.
    shrinkage
        What the scores of the nets after the first are multiplied with.
    """

    learners: int = 5
    shrinkage: float = 1.0

    @property
    def _learners(self) -> int:
        if type(self.learners) is not int or self.learners < 1:
            raise UsageError(f"learners must be a positive whole number, got {self.learners!r}.")
        return self.learners

    @property
    def _shrinkage(self) -> float:
        if type(self.shrinkage) not in (int, float) or not 0 < self.shrinkage < float("inf"):
            raise UsageError(f"shrinkage must be a positive number, got {self.shrinkage!r}.")
        return self.shrinkage
