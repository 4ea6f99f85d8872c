"""Members of a cross-fit as Ray tasks, each fitted whole by one worker.

Members are independent of each other, so nothing passes between workers, every kind of ranker can
be a member (linear models and stumps too, which cannot be shared out), and each member is the one
that one process with as many threads would fit, to the bit. The other way, all workers at one
member after the other, would shorten the longest wait where there are more workers than members;
but trees would then be LightGBM's data-parallel ones, nets would differ by the order of sums, and
every step would wait for the network.

What each machine needs is room for the data and for as many members as it has workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plackett.data.dataset import Dataset
from plackett.distributed import ClusterError
from plackett.metrics import Metric
from plackett.models.ranker import Ranker
from plackett.models.run import Run

if TYPE_CHECKING:
    from plackett.distributed.tasks import Sign
    from plackett.models.crossfit import CrossFit

Fitted = tuple[Ranker, float]
"""A member and its scale."""
Common = tuple["CrossFit", Dataset, tuple[Metric, ...]]


def fitted_together(crossfit: CrossFit, data: Dataset, run: Run) -> list[Fitted]:
    """All members in their order, those of the checkpoint as they are, the others by workers.

    A member whose worker dies is begun again. Each is in the checkpoint as soon as it is finished.
    """
    found: dict[int, Fitted] = {}
    for i in range(crossfit._count):
        kept = crossfit._kept(i, data, run.checkpoint)
        if kept is not None:
            found[i] = kept
    missing = [i for i in range(crossfit._count) if i not in found]
    if missing:
        _fit_missing(crossfit, data, run, missing, found)
    return [found[i] for i in range(crossfit._count)]


def _fit_missing(
    crossfit: CrossFit, data: Dataset, run: Run, missing: Sequence[int], found: dict[int, Fitted]
) -> None:
    from plackett.distributed.errands import Errands

    assert run.cluster is not None
    assert crossfit.ranker is not None
    sent = crossfit.clone().set_params(ranker=with_threads(crossfit.ranker, run.cluster.threads))
    place = run.cluster.place
    with Errands(run.cluster, fit_member, (sent, data, run.metrics)) as errands:
        ahead = list(missing[errands.slots :])
        for i in missing[: errands.slots]:
            errands.send(i, i)
        while len(found) < crossfit._count:
            run.progress(f"members on {place}", len(found), crossfit._count)
            news = errands.receive()
            if news is None or news.kind == "told":
                continue
            if news.kind == "failed":
                raise _failure(news.number, news.content)
            member, scale = news.content
            found[news.number] = _as_asked(member, crossfit.ranker), scale
            crossfit._keep(news.number, member, run.checkpoint)
            if ahead:
                i = ahead.pop(0)
                errands.send(i, i)
    run.progress(f"members on {place}", len(found), crossfit._count)


def fit_member(common: Common, i: int, sign: Sign) -> Fitted:
    """What a task does: one member."""
    crossfit, data, metrics = common
    return crossfit._fit_member(i, data, metrics, None, sign)


def with_threads(ranker: Ranker, threads: int | None) -> Ranker:
    """A ranker like this one, not fitted, that uses so many threads, as what is inside it does."""
    copy = ranker.clone()
    inner: dict[str, Any] = {
        name: with_threads(value, threads)
        for name, value in copy.get_params().items()
        if isinstance(value, Ranker)
    }
    own = {"threads": threads} if "threads" in copy.get_params() else {}
    return copy.set_params(**own, **inner)


def _as_asked(member: Ranker, ranker: Ranker) -> Ranker:
    """A member with the threads that were asked for; while it was fitted, the cluster said them."""
    changed = {
        name: value
        for name, value in ranker.get_params().items()
        if name == "threads" or isinstance(value, Ranker)
    }
    return member.set_params(**changed)


def _failure(i: int, error: Exception) -> Exception:
    if not isinstance(error, ClusterError):
        return error
    return ClusterError(
        f"member {i + 1}: {error}. Finished members are in the checkpoint, if there is one."
    )
