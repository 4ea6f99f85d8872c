r"""Nets trained one after another, each on the residuals of those before it (uBoost, Zhu & Klabjan 2020).

.. math:: F_1 = \arg\min L, \qquad f_m \approx -\frac{\partial L}{\partial F}\Big|_{F_{m-1}},
    \qquad F_m = F_{m-1} + \rho f_m

A net that does not improve the validation metric is discarded and ends the fit. A single net is the case without
corrections.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plackett.base.errors import UsageError
from plackett.data import Dataset
from plackett.distributed import Partition, WorkerGroup
from plackett.models.fit_context import Callback, Curves, FitContext, Means, Selection, bind_objective
from plackett.models.neural.batch_norm import check_batch_norm
from plackett.models.neural.batches import BatchPlan, find_trained_lists
from plackett.models.neural.environment import gradients_enabled, limit_threads, preserve_rng, resolve_device
from plackett.models.neural.loss import LevelLoss, ListLoss, NetLoss, ResidualLoss
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.neural.scorers import build_net
from plackett.models.neural.scoring import score_nets
from plackett.models.neural.training import Tensors, Training, ValidationScores, copy_weights, select_prefix
from plackett.models.neural.user_module import fingerprint, name_of
from plackett.models.neural.weights import damaged_state, read_state, write_state
from plackett.models.workers import WorkerSpec, run_on_workers
from plackett.objectives import objective as as_objective
from plackett.objectives.objective import reseed


@dataclass
class BoostedTraining:
    """The training of one net or several, one after another."""

    ranker: BaseNeuralRanker
    train: Dataset
    validation: Dataset | None
    context: FitContext
    device: torch.device
    plan: BatchPlan
    nets: list[nn.Module] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    """Number of epochs of each finished net."""
    curves: Curves = field(default_factory=dict)
    best: Means | None = None
    best_step: int = 0
    """Epochs of all nets up to the best epoch of the last one that is kept."""
    stopped: bool = False
    """Whether a callback has ended the fit."""
    steps: int = 0
    """Number of steps of the finished nets."""
    _module_fingerprint: str | None = None

    def finish(self) -> None:
        """Train the nets."""
        self.curves = {"train": {"loss": []}}
        if self.ranker.follow_train:
            self.curves["train"] |= {name: [] for name in self.context.metric_names}
        if self.validation is not None:
            self.curves["validation"] = {name: [] for name in self.context.metric_names}
        with preserve_rng(self.device), gradients_enabled():
            state = self._restore()
            while len(self.epochs) < self.ranker.learners and not self.stopped:
                if not self._train_next(state):
                    break
                state = None

    def _train_next(self, state: tuple[dict[str, Any], Tensors] | None) -> bool:
        """Train one more net; return whether it improves the model."""
        training = self._make_training()
        if state is not None:
            with self._report_damage():
                training.restore(*state)
        training.finish()
        before = sum(self.epochs)
        self.epochs.append(training.epoch)
        self.stopped = training.stopped
        self.steps += training.step
        self.curves["train"]["loss"] += training.losses
        for name, means in training.train_means.items():
            self.curves["train"][name] += means
        for name, means in training.means.items():
            self.curves["validation"][name] += means
        if training.best is None:
            return False
        self.best = training.selection.best
        kept = training.epoch if training.validation is None else training.selection.best_step + 1
        self.best_step = before + kept
        self.nets.append(load_net(self.ranker, training.best, len(self.nets), self.device))
        return True

    def _make_training(self) -> Training:
        def with_base(data: Dataset | None) -> ValidationScores | None:
            if data is None:
                return None
            base = score_nets(self.nets, data, self.device, scale=self.ranker.shrinkage)
            return ValidationScores(data, base, self.ranker.shrinkage if self.nets else 1.0)

        training = Training(
            self.ranker,
            self._first_net(),
            self._make_loss(),
            self.train,
            with_base(self.validation),
            self._continued_context(),
            self.device,
            Selection(self.best),
            save_if_due=lambda: self._save_if_due(training),
            plan=self.plan,
            followed=with_base(self.train) if self.ranker.follow_train else None,
            first_step=self.steps,
        )
        return training

    def _first_net(self) -> nn.Module:
        """The next net before its training, with the weights of the net in ``init`` if there is one."""
        learner = len(self.nets)
        net = build_net(self.ranker, self.train.n_features, learner=learner)
        init = self.context.init
        if isinstance(init, BaseNeuralRanker) and learner < len(init.networks_):
            try:
                net.load_state_dict(copy_weights(init.networks_[learner]))
            except RuntimeError as error:
                raise UsageError(
                    "init is a net of another structure; give the ranker the same layers, "
                    f"activation, batch_norm and so on: {str(error).splitlines()[-1].strip()}"
                ) from error
        return net

    def _continued_context(self) -> FitContext:
        """The context of the fit, with the epochs of finished nets added to its reports."""
        before, total = sum(self.epochs), self.ranker.epochs * self.ranker.learners
        context = self.context

        def shift(callback: Callback) -> Callback:
            return lambda step: callback(replace(step, step=before + step.step, total=total))

        return replace(
            context,
            progress=lambda text, done, _: context.progress(text, before + done, total),
            watch=lambda done, _, mean: context.watch(before + done, total, mean),
            callbacks=tuple(map(shift, context.callbacks)),
        )

    def _make_loss(self) -> NetLoss:
        objective = reseed(as_objective(self.ranker.objective), self.ranker.seed)
        if self.nets:
            scores = score_nets(self.nets, self.train, self.device, scale=self.ranker.shrinkage)
            targets = -bind_objective(objective, self.train).evaluate(scores, self.steps).gradient
            return ResidualLoss(targets, self.train, self.device)
        kind = LevelLoss if self.ranker.recurrent is not None else ListLoss
        return kind(objective, self.train)

    def _save_if_due(self, training: Training) -> None:
        checkpoint = self.context.checkpoint
        if checkpoint is None or not checkpoint.due():
            return
        plain, tensors = training.state()
        finished = {
            "nets": len(self.nets),
            "epochs": self.epochs,
            "steps": self.steps,
            "curves": self.curves,
            "best": self.best,
            "best_step": self.best_step,
            "module": self._fingerprint_module(),
        }
        for learner, net in enumerate(self.nets):
            tensors |= {f"learner{learner}.{name}": v for name, v in copy_weights(net).items()}
        with checkpoint.saving(self.steps + training.step) as folder:
            write_state({"done": finished, "training": plain}, tensors, folder)

    def _restore(self) -> tuple[dict[str, Any], Tensors] | None:
        """Restore the finished nets; return the state of the current net, None at the start."""
        latest = None if self.context.checkpoint is None else self.context.checkpoint.latest()
        if latest is None:
            return None
        plain, tensors = read_state(latest)
        with self._report_damage():
            finished = plain["done"]
            self._check_module(finished.get("module"), latest)
            self.epochs, self.steps = finished["epochs"], finished["steps"]
            self.curves = finished["curves"]
            self.best_step = finished.get("best_step", 0)
            self.best = None if finished["best"] is None else tuple(finished["best"])
            self.nets = [
                load_net(self.ranker, select_prefix(tensors, f"learner{i}."), i, self.device)
                for i in range(finished["nets"])
            ]
            return plain["training"], tensors

    @contextmanager
    def _report_damage(self) -> Iterator[None]:
        """Turn errors of the block into one that names the damaged checkpoint."""
        try:
            yield
        except UsageError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            latest = None if self.context.checkpoint is None else self.context.checkpoint.latest()
            assert latest is not None
            reason = str(error).splitlines()[-1].strip()
            raise damaged_state(latest, f"{type(error).__name__}: {reason}") from error

    def _fingerprint_module(self) -> str | None:
        """The fingerprint of a user's module with its initial weights; None for other nets."""
        if self._module_fingerprint is None and self.ranker.module is not None:
            self._module_fingerprint = fingerprint(build_net(self.ranker, self.train.n_features))
        return self._module_fingerprint

    def _check_module(self, saved: str | None, state: Path) -> None:
        if self.ranker.module is not None and saved != self._fingerprint_module():
            raise UsageError(
                f"the checkpoint in {state.parent} belongs to a fit of another module: "
                f"{name_of(self.ranker.module)} has another structure or begins with other "
                "weights. Use another folder, or delete this one."
            )


def load_net(ranker: BaseNeuralRanker, weights: Tensors, learner: int, device: torch.device) -> nn.Module:
    """Build a net with these weights, ready to score."""
    assert ranker.n_features_ is not None
    net = build_net(ranker, ranker.n_features_, learner=learner)
    net.load_state_dict(weights)
    return net.requires_grad_(False).to(device).eval()


def train_on_cluster(
    ranker: BaseNeuralRanker, train: Dataset, validation: Dataset | None, context: FitContext
) -> tuple[list[nn.Module], Curves, list[int]]:
    """Train with the workers of a cluster; return nets, curves and epochs."""
    if ranker.device not in ("auto", "cpu"):
        raise UsageError(
            f"workers of a cluster train nets on CPUs; fit without cluster= to use device={ranker.device!r}."
        )
    check_batch_norm(build_net(ranker, train.n_features))
    parts = {"train": train} if validation is None else {"train": train, "validation": validation}
    positions = find_trained_lists(ranker, train)
    weights, curves, epochs = run_on_workers(train_as_worker, "torch", ranker, parts, context, positions)
    device = resolve_device(ranker.device)
    nets = [
        load_net(ranker, {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}, i, device)
        for i, arrays in enumerate(weights)
    ]
    return nets, curves, epochs


def train_as_worker(
    worker_group: WorkerGroup, parts: dict[str, Dataset], partition: Partition, spec: WorkerSpec
) -> tuple[list[dict[str, Any]], Curves, list[int]]:
    """Train as one of the workers; all of them return the same weights."""
    plan = BatchPlan(partition, spec.content, worker_group)
    with spec.context(worker_group) as context, limit_threads(spec.threads):
        validation, cpu = parts.get("validation"), torch.device("cpu")
        training = BoostedTraining(spec.ranker, parts["train"], validation, context, cpu, plan)
        training.finish()
    weights = [{name: v.numpy() for name, v in copy_weights(net).items()} for net in training.nets]
    return weights, training.curves, training.epochs
