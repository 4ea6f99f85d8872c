"""Every parser takes or refuses the kept corpus and random mutants, within budgets of time and memory.

``make fuzz`` searches for longer, guided by coverage.
"""

from __future__ import annotations

import pytest

for library in ("starlette", "msgspec", "catboost", "xgboost"):
    pytest.importorskip(library)

targets = pytest.importorskip("fuzz_targets")


@pytest.mark.parametrize("name", targets.TARGETS)
def test_valid_inputs_the_corpus_and_mutants(name: str) -> None:
    target = targets.TARGETS[name]
    seeds = target.seeds()
    for data in seeds:
        target.check(data)  # compiles what is needed, outside of the budget
    kept = [path.read_bytes() for path in sorted((targets.CORPUS / name).glob("*"))]
    for data in [*seeds, *kept, b"", *targets.mutants([*seeds, *kept], target.tokens, 200, seed=0)]:
        targets.run(target, data)


def test_the_budget_is_checked() -> None:
    def hold(_: bytes) -> None:
        bytearray(1 << 28)[:: 1 << 12] = b"x" * (1 << 16)

    with pytest.raises(targets.BudgetExceededError):
        targets.run(targets.Target(hold, list), b"1")
