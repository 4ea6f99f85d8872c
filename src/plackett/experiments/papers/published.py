"""Numbers that the papers print, as they print them.

A ``*`` is the paper's mark of significance; ``†`` marks ERR that cannot be right, since it falls
with the cut-off or lies outside what NDCG allows (another convention was used for these rows).
"""

from __future__ import annotations

from collections.abc import Mapping

Published = Mapping[str, tuple[str, ...]]
"""Cells by system, in the order of the table's metrics."""


def number(cell: str) -> float:
    """The number of a cell without its marks and interval.

    >>> number("*.602"), number("42.66±.36"), number(".400†")
    (0.602, 42.66, 0.4)
    """
    return float(cell.strip("*†").partition("±")[0])


def _table(text: str) -> Published:
    """One system a line, its cells after a colon."""
    lines = [line.partition(":") for line in text.strip().splitlines()]
    return {name.strip(): tuple(cells.split()) for name, _, cells in lines}


A_TABLE_1: Mapping[str, Published] = {
    "MSLR-WEB30K": _table("""
        CrossEntropy: 42.66±.36 43.06±.16 45.44±.16
        E[CrossEntropy]: 42.98±.75 43.28±.65 45.63±.62
        ApproxNDCG: 46.64±.22 45.38±.11 47.31±.10
        E[ApproxNDCG]: 48.81±.25 47.48±.10 49.33±.10
        λMART: 50.06±.27 49.39±.08 51.26±.04
        E[λMART]: 50.22±.18 49.44±.06 51.40±.04
    """),
    "Yahoo set 1": _table("""
        ApproxNDCG: 69.63±.17 72.32±.10 76.77±.06
        E[ApproxNDCG]: 70.10±.12 72.69±.13 77.11±.09
        λMART: 72.47±.15 74.97±.09 79.16±.06
        E[λMART]: 72.58±.09 75.16±.04 79.34±.05
    """),
}
"""NDCG@1, @5, @10 in percent with 95 % intervals."""

D_TABLES: Mapping[str, Published] = {
    "OHSUMED": _table("""
        uRank: *.602 *.449 *.511 *.547 *.481 *.573 *.455 *.586
        uBoost: *.609 *.454 *.531 *.555 *.493 *.580 *.464 *.594
        uMart: .530 .395 .452 .497 .431 .523 .411 .538
        urBoost: *.612 *.457 *.529 *.555 *.494 *.578 *.467 *.590
        MDPRank: .500 .317 .440 .415 .421 .449 .409 .464
        LambdaMart-L: .506 .375 .445 .488 .426 .514 .409 .527
        LambdaMart-R: .468 .346 .412 .463 .389 .485 .380 .500
        LambdaLoss: .563 .389 .449 .489 .441 .518 .420 .531
        p-ListMLE: .469 .311 .410 .430 .398 .453 .396 .472
    """),
    "MQ2007": _table("""
        uRank: *.481 *.295 *.482 *.404 *.490 *.430 *.526 *.448
        uBoost: *.489 *.300 *.481 *.406 *.491 *.433 *.523 *.450
        uMart: *.480 *.295 *.477 *.404 *.487 *.432 .519 *.449
        urBoost: *.492 *.301 *.486 *.410 *.493 *.436 *.524 *.453
        MDPRank: .406 .166† .410 .257† .417 .286† .442 .309†
        LambdaMart-L: .469 .234† .472 .346† .478 .362† .512 .369†
        LambdaMart-R: .465 .224† .464 .315† .474 .341† .508 .360†
        LambdaLoss: .406 .192† .412 .274† .419 .296† .448 .313†
        p-ListMLE: .380 .177† .338 .236† .387 .255† .372 .272†
    """),
    "MSLR-WEB10K": _table("""
        uRank: .458 .387 .441 .501 .443 .526 .458 .542
        uBoost: .459 .388 .441 .502 .444 .528 .460 .544
        uMart: *.481 *.407 *.468 *.525 *.474 *.550 *.495 *.565
        urBoost: .461 .390 .442 .503 .444 .529 .462 .545
        LambdaMart-L: .468 .396 .451 .512 .457 .538 .475 .553
        LambdaMart-R: .421 .326† .419 .400† .427 .325† .446 .344†
        LambdaLoss: .423 .308† .423 .378† .427 .294† .446 .322†
        p-ListMLE: .407 .286† .396 .370† .377 .274† .420 .300†
    """),
    "MSLR-WEB30K": _table("""
        uRank: .465 .401 .450 .515 .453 .517 .471 .545
        uBoost: .474 .403 .452 .517 .457 .543 .472 .548
        uMart: *.505 *.429 *.490 *.545 *.494 *.570 *.512 *.584
        urBoost: .478 .405 .455 .518 .458 .543 .472 .558
        LambdaMart-L: .489 .415 .468 .530 .472 .556 .490 .571
        LambdaMart-R: .458 .353† .442 .315† .448 .336† .464 .440†
        LambdaLoss: .430 .310† .399 .307† .410 .400† .428 .377†
        p-ListMLE: .411 .310† .386 .285† .394 .347† .410 .384†
    """),
}
"""NDCG@1, ERR@1, NDCG@3, ERR@3, NDCG@5, ERR@5, NDCG@10, ERR@10."""

D_TABLE_6: Mapping[str, Published] = {
    "MSLR-WEB10K": _table("""
        uMart: .496 .484 .490 .509
        LambdaMart-L: .484 .478 .484 .504
    """),
    "MSLR-WEB30K": _table("uMart: .522 .507 .510 .529"),
}
"""NDCG@1, @3, @5, @10 by LightGBM's convention, tuned on test lists; a row is lost."""

D_TABLE_1: Published = {
    "OHSUMED": ("106", "16,140", "45", "3", "68.12", "320", "71.87"),
    "MQ2007": ("1,692", "69,623", "46", "3", "87.22", "147", "73.74"),
    "MSLR-WEB10K": ("10,000", "1,200,192", "136", "5", "51.75", "908", "56.02"),
    "MSLR-WEB30K": ("31,531", "3,711,000", "136", "5", "52.22", "1,251", "53.33"),
}
"""Queries, documents, features, rating levels, LR %, MPQ, ALRPQ %."""
