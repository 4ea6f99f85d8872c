"""Fuzz the parsers with atheris, guided by coverage.

    python tests/fuzz/campaign.py [--seconds 60] [--out FOLDER] [NAME ...]

Each target runs in a process of its own. Inputs that reach new code are written to ``FOLDER/corpus/NAME``; an input
that fails is written to ``FOLDER/failures`` and its traceback is printed. The last line counts executions.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

# Parsers in plain Python; Numba cannot compile functions that atheris has instrumented.
INSTRUMENTED = [
    "fuzz_targets",
    "letor_reference",
    "plackett.data.letor.errors",
    "plackett.data.trec",
    "plackett.data.clicks.log",
    "plackett.data.columnar.reader",
    "plackett.data.columnar.roles",
    "plackett.models.artifact",
    "plackett.models.load",
    "plackett.models.ensembles.catboost",
    "plackett.models.ensembles.fields",
    "plackett.models.ensembles.lightgbm",
    "plackett.models.ensembles.ranklib",
    "plackett.models.ensembles.xgboost",
    "plackett.models.parameters",
    "plackett.serving.server.requests",
]


def fuzz(name: str, arguments: list[str]) -> None:
    """Fuzz one target in this process until libFuzzer ends it."""
    import atheris

    import fuzz_targets as targets

    for module in map(importlib.import_module, INSTRUMENTED):
        for member in [m for holder in (module, *_classes(module)) for m in vars(holder).values()]:
            if isinstance(member, types.FunctionType) and member.__module__ == module.__name__:
                atheris.instrument_func(member)
    target = targets.TARGETS[name]
    targets._small_model()  # compiled before the clock of an input runs
    for seed in target.seeds():
        target.check(seed)

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        changed = targets.replace_value(data, seed) if target.is_json and seed % 2 else None
        return atheris.Mutate(data, size) if changed is None or len(changed) > size else changed

    atheris.Setup([sys.argv[0], *arguments], lambda data: targets.run(target, bytes(data)), custom_mutator=mutate)
    atheris.Fuzz()


def _classes(module: types.ModuleType) -> list[type]:
    return [m for m in vars(module).values() if isinstance(m, type) and m.__module__ == module.__name__]


def start(name: str, seconds: int, out: Path) -> tuple[int, float, bool]:
    """Fuzz one target in another process; executions, seconds of processor time, and whether all went well."""
    import fuzz_targets as targets

    corpus, failures = out / "corpus" / name, out / "failures"
    for folder in (corpus, failures):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = targets.TARGETS[name].seeds()
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = out / f"{name}.words"
    tokens = (*targets.TARGETS[name].tokens, b"9" * 20)
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n' for token in tokens))
    kept = [str(targets.CORPUS / name)] if (targets.CORPUS / name).is_dir() else []
    command = [
        *(sys.executable, __file__, "--target", name, "--"),
        *(f"-max_total_time={seconds}", f"-max_len={max(2048, *map(len, seeds))}", "-timeout=30", "-rss_limit_mb=4096"),
        *(f"-dict={words}", f"-artifact_prefix={failures}/{name}-", "-print_final_stats=1", "-verbosity=0"),
        *(str(corpus), *kept),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    counted = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    if done.returncode or counted is None:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n")
    return int(counted.group(1)) if counted else 0, processor, done.returncode == 0


def main() -> int:
    """Run the campaign; 1 if an input failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="targets; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="per target")
    parser.add_argument("--out", type=Path, help="folder of the corpus and of failing inputs")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    if "--" in sys.argv:
        at = sys.argv.index("--")
        fuzz(parser.parse_args(sys.argv[1:at]).target, sys.argv[at + 1 :])
        return 0
    options = parser.parse_args()
    import fuzz_targets as targets

    out = options.out or Path(tempfile.mkdtemp(prefix="fuzz-"))
    total, is_clean = 0, True
    for name in options.names or targets.TARGETS:
        executions, processor, went_well = start(name, options.seconds, out)
        total, is_clean = total + executions, is_clean and went_well
        outcome = "ok" if went_well else "FAILED"
        print(f"{name:14s}{executions:12,} executions{processor:8.0f} s of processor  {outcome}", flush=True)
    print(f"{total:,} executions; corpus and failing inputs in {os.path.relpath(out)}")
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
