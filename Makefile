# Everything runs in .venv, which these targets make and fill themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
export PYTHONHASHSEED := 0

.PHONY: quickstart test test-tools test-suite test-bounds fuzz soak check docs links format package benchmarks clean help

help:
	@echo "make quickstart   set up and run the main job: data, models, leaderboard, report"
	@echo "make test         set up and run all tests"
	@echo "make fuzz         search each parser for inputs that break it, a minute each"
	@echo "make soak         random data against other programs, failing disks, kills, a server under load (30 minutes)"
	@echo "make check        linters, types, layers, documentation with doctests"
	@echo "make links        check addresses outside the documentation (needs a network)"
	@echo "make benchmarks   print speed beside that of peers, in the same run"
	@echo "make package      build wheel and sdist into dist/"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# What it takes to run plackett.
$(VENV)/.run: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

# What it takes to work on plackett. torch comes first, by its exact version: resolved together with
# the rest, pip may look at other builds of it. Tests compare losses with those of allRank, which need
# nothing that its package requires.
$(VENV)/.dev: $(VENV)/.run
	$(PIP) install torch==$$(sed -n 's/^torch==//p' constraints.txt)
	$(PIP) install --constraint constraints.txt --editable '.[neural,test,check,docs]'
	$(PIP) install --constraint constraints.txt --no-deps allrank
	@touch $@

quickstart: $(VENV)/.run
	$(BIN)/plackett quickstart

# What tests need of the system: a browser for the report, PostgreSQL for a team's store, a font for
# figures. Installed where root and apt are there; elsewhere those tests are skipped, and say why.
# RUNLEVEL=1 keeps Debian from starting a server: tests start one of their own.
TOOLS := chromium chromium-driver postgresql fonts-dejavu-core
test-tools:
	@missing=""; \
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || missing="a browser"; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		missing="$${missing:+$$missing and }PostgreSQL"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing $(TOOLS)"; \
		export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive; \
		if apt-get -qq update && \
			apt-get -qq install --yes --no-install-recommends $(TOOLS) >/dev/null; then exit 0; fi; \
	fi; \
	echo "tests that need $$missing will be skipped (as root on Debian: apt-get install $(TOOLS))"

# The suite in three processes, and beside it the kernels with bounds checks. This keeps two cores busy
# while tests of clusters, servers and killed processes wait.
# Kernels are compiled first, once, and not by several test processes at the same time.
test: $(VENV)/.dev test-tools
	$(BIN)/plackett warmup --jobs 2
	$(MAKE) --jobs=2 --output-sync=target --keep-going test-suite test-bounds

# Threads that wait for work must not spin while another process needs their core.
test-suite test-bounds: export OMP_WAIT_POLICY := passive

test-suite: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder

# Numba does not check indices unless asked to. tests/test_bounds.py holds a kernel that must fail, so
# that the checks are known to run.
# Only files with kernels are collected: the others import much that is not needed here. The compiler
# optimizes nothing (NUMBA_OPT=0): the checks are the same, and most of the time went into compiling.
KERNELS = tests/data/letor tests/data/transforms \
	$(shell grep -rl --include='test_*.py' 'mark\.kernels' tests)
test-bounds: $(VENV)/.dev
	NUMBA_BOUNDSCHECK=1 NUMBA_OPT=0 nice -n 5 $(BIN)/python -m pytest -m kernels $(KERNELS)

# Each parser for a minute, guided by coverage; a failing input is kept.
fuzz: $(VENV)/.dev
	$(PIP) install --constraint constraints.txt --editable '.[fuzz]'
	$(BIN)/python tests/fuzz/campaign.py --seconds 60

# Minutes of random data against other programs, failing disks, kills at random moments, a server under load.
soak: $(VENV)/.dev
	$(BIN)/python tests/soak/differential.py --minutes 5
	$(BIN)/python tests/soak/faults.py
	$(BIN)/python tests/soak/kills.py --kills 200
	$(BIN)/python tests/soak/server.py --minutes 5

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs benchmarks *.md
	$(MAKE) docs

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m sphinx -q -W -b doctest docs docs/_build/doctest
	$(BIN)/python -m pytest --doctest-modules src/plackett

# Addresses outside the site; links between pages are checked by `make test` and `make docs`.
links: $(VENV)/.dev
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/links

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmarks: $(VENV)/.dev
	$(PIP) install --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/reader.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/objectives.py
	$(BIN)/python benchmarks/trees.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/serving.py

package: $(VENV)/.dev
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf dist build docs/_build .pytest_cache .mypy_cache .ruff_cache
	find src tests docs -name __pycache__ -prune -exec rm -rf {} +
