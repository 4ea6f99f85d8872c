"""What neural rankers share: fitting, scoring and files, in terms of a row of nets."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from plackett.base.errors import DataError, UsageError
from plackett.base.optional import need_torch
from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.neural.settings import NetSettings, check_settings
from plackett.models.run import Run

if TYPE_CHECKING:
    from torch import nn


Curves = dict[str, dict[str, list[float]]]
_FILE = "weights-{}.safetensors"


@dataclass
class Net(NetSettings):
    """A ranker whose score is that of a net, plus those of nets that correct it."""

    spreads: ClassVar[bool] = True
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

    def _fit(self, train: Dataset, validation: Dataset | None, run: Run) -> None:
        need_torch()
        check_settings(self)
        from plackett.models.neural.devices import as_device, threads
        from plackett.models.neural.shares import Share
        from plackett.models.neural.spreading import trained, trained_together

        if run.cluster is None:
            with threads(self.threads):
                device = as_device(self.device)
                found = trained(self, train, validation, run, device, Share.whole(train))
        else:
            found = trained_together(self, train, validation, run)
        self.networks_: list[nn.Module] = found.nets
        """The fitted nets: modules that map features and offsets of lists to scores."""
        self.curves_: Curves = found.curves
        """Loss and metrics after each epoch of each net, by part of the data."""
        self.epochs_: list[int] = found.epochs
        """How many epochs each net was trained for, also one that was left out in the end."""

    def _predict(self, data: Dataset) -> Scores:
        need_torch()
        from plackett.models.neural.devices import as_device, threads
        from plackett.models.neural.scoring import summed

        device = as_device(self.device)
        nets = [net.to(device) for net in self.networks_]
        with threads(self.threads):
            return summed(nets, data, device, shrinkage=self._shrinkage)

    def _write(self, folder: Path) -> None:
        from plackett.models.neural.files import write_weights

        for place, net in enumerate(self.networks_):
            write_weights(net, folder / _FILE.format(place + 1))

    def _read(self, folder: Path) -> None:
        need_torch()
        from plackett.models.neural.files import read_own_weights, read_weights

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
