"""Log comparisons and searches to MLflow.

A comparison is a run with its files as artifacts, and under it a run for each system with settings,
metrics and the learning curve. A search is a run with the best settings, and under it a run for
each trial. Nothing is logged unless asked for, and no global state of MLflow is changed.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plackett._version import __version__
from plackett.base.errors import PlackettError, UsageError, require
from plackett.base.files import write_json
from plackett.experiments.compare import CompareResult
from plackett.experiments.report.write import ReportFiles, write_files
from plackett.experiments.tuning.tune import TuneResult

EXPERIMENT = "plackett"
"""The experiment that runs go to unless another is named."""
_PARENT = "mlflow.parentRunId"
_NAME = "mlflow.runName"
_BATCH = 900  # values in one call; MLflow accepts 1000, and 100 parameters
_PARAMETERS = 100
_MAX_LENGTH = 6000  # characters of a parameter that MLflow accepts


def log_comparison(
    compared: CompareResult,
    *,
    uri: str | os.PathLike[str],
    files: ReportFiles | None = None,
    experiment: str = EXPERIMENT,
) -> str:
    """Log a comparison; returns the id of its run.

    Parameters
    ----------
    compared
        The comparison.
    uri
        MLflow's tracking server: ``http://...``, ``sqlite:///FILE``, or the file's path.
    files
        Files that :func:`plackett.experiments.report.write.write_files` wrote; None writes them.
    experiment
        Name of the experiment; created if it does not exist.
    """
    board, plan = compared.board, compared.plan
    log = _Log(uri, experiment)
    run = log.start(f"comparison on {plan.source.name}")
    log.parameters(
        run,
        {
            "data": plan.source.name,
            "protocol": str(plan.protocol),
            "selected_by": plan.select,
            "baseline": board.baseline,
            "systems": ", ".join(system.name for system in plan.systems),
            "test": board.test,
            "correction": board.correction,
        },
    )
    settings = plan.settings()
    for entry in board.entries:
        child = log.start(entry.name, parent=run)
        log.parameters(child, settings[entry.name])
        p_values = {f"{m} p adjusted": p for m, p in entry.adjusted.items()}
        log.metrics(child, entry.means | p_values | {"seconds": entry.seconds})
        curves = compared.results.curves.get(entry.name, {})
        curve = next(iter(curves.values()), ())
        log.curve(child, f"validation {plan.selection_metric}", curve)
        log.end(child)
    best = board.entries[0]
    log.metrics(run, {f"best {board.primary}": best.means[board.primary]})
    with TemporaryDirectory() as folder:
        written = files or write_files(compared, Path(folder))
        log.artifacts(run, [written.report, written.results, written.markdown, *written.figures])
    log.end(run)
    return run


def log_tuning(
    result: TuneResult, *, uri: str | os.PathLike[str], name: str = "data", experiment: str = EXPERIMENT
) -> str:
    """Log a search; returns the id of its run.

    Parameters
    ----------
    result
        The search.
    uri, experiment
        As for :func:`log_comparison`.
    name
        Name of the data, for people.
    """
    log = _Log(uri, experiment)
    plan = result.plan
    run = log.start(f"tuning of {plan.name} on {name}")
    log.parameters(run, {"data": name, "recipe": plan.name, "metric": plan.metric})
    log.parameters(run, {"pruner": plan.pruner, "trials": len(result.trials), "seed": plan.seed})
    log.parameters(run, {f"best {key}": value for key, value in result.settings.items()})
    log.metrics(run, {plan.selection_metric: result.value, f"recipe {plan.selection_metric}": result.recipe_value})
    log.metrics(run, {f"importance {key}": share for key, share in result.importance.items()})
    for trial in result.trials:
        child = log.start(f"trial {trial.number + 1}", parent=run, tags={"state": trial.state})
        log.parameters(child, trial.settings)
        if trial.value is not None:
            log.metrics(child, {plan.selection_metric: trial.value})
        log.metrics(child, {"seconds": trial.seconds})
        log.end(child, "FAILED" if trial.state == "failed" else "FINISHED")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tuning.json"
        write_json(path, result.to_dict())
        log.artifacts(run, [path])
    log.end(run)
    return run


class _Log:
    """The calls of MLflow's client that we use."""

    def __init__(self, uri: str | os.PathLike[str], experiment: str) -> None:
        require("mlflow")
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        tracking_uri, artifacts = _tracking_uri(os.fspath(uri))
        try:
            self._client = MlflowClient(tracking_uri=tracking_uri)
            known = self._client.get_experiment_by_name(experiment)
            self._experiment = (
                self._client.create_experiment(experiment, artifacts) if known is None else known.experiment_id
            )
        except (MlflowException, OSError) as error:
            raise PlackettError(f"MLflow at {os.fspath(uri)} reports an error: {error}") from error

    def start(self, name: str, *, parent: str | None = None, tags: Mapping[str, str] | None = None) -> str:
        """Begin a run; its id."""
        marks = {_NAME: name, "plackett": __version__, **(tags or {})}
        if parent is not None:
            marks[_PARENT] = parent
        run: str = self._client.create_run(self._experiment, tags=marks).info.run_id
        return run

    def parameters(self, run: str, values: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        self._log(run, "params", [Param(_key(key), _text(value)) for key, value in values.items()], _PARAMETERS)

    def metrics(self, run: str, values: Mapping[str, float]) -> None:
        self._values(run, [(key, value, 0) for key, value in values.items()])

    def curve(self, run: str, name: str, values: Sequence[float]) -> None:
        self._values(run, [(name, value, step + 1) for step, value in enumerate(values)])

    def _values(self, run: str, values: Iterable[tuple[str, float, int]]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_key(key), float(value), now, step) for key, value, step in values if math.isfinite(value)]
        self._log(run, "metrics", metrics, _BATCH)

    def _log(self, run: str, kind: str, items: Sequence[Any], size: int) -> None:
        for start in range(0, len(items), size):
            self._client.log_batch(run, **{kind: items[start : start + size]})

    def artifacts(self, run: str, paths: Iterable[Path]) -> None:
        for path in paths:
            self._client.log_artifact(run, str(path))

    def end(self, run: str, state: str = "FINISHED") -> None:
        self._client.set_terminated(run, state)


def _tracking_uri(text: str) -> tuple[str, str | None]:
    """MLflow's tracking URI, and the folder for artifacts; None leaves it to MLflow.

    A path is a file of SQLite, or a folder if one exists there. MLflow would put the artifacts of an
    SQLite file into the current folder; next to the file they can be found again.
    """
    scheme, sign, rest = text.partition("://")
    if sign and scheme != "sqlite":
        return text, None
    path = Path(rest[1:] if sign else text).absolute()
    if path.is_dir():
        return path.as_uri(), None
    return f"sqlite:///{path}", path.with_name(f"{path.stem}-artifacts").as_uri()


def _key(name: str) -> str:
    """A name in MLflow's letters, which have no @."""
    return name.replace("@", "_at_")


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


def check_uri(uri: str | None) -> None:
    """Fail before the work begins if nothing can be logged to this address."""
    if uri is not None and not uri.strip():
        raise UsageError("--mlflow needs an address to log to, for example sqlite:///mlflow.db.")
    if uri is not None:
        _Log(uri, EXPERIMENT)
