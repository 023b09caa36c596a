# Everything happens in .venv; nothing outside this directory is written.
# CONTRIBUTING.md has the same commands without make.

SHELL := /bin/sh
.DEFAULT_GOAL := help

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# PYTHON=... chooses the interpreter that .venv is made from.
PYTHON ?=
CANDIDATES := $(or $(PYTHON),python3.13 python3.12 python3.14 python3.11 python3 python)
BIN := .venv/bin
READY := .venv/.installed

.PHONY: help test test-peers check fmt demo bench bench-archive bench-memory bench-growth bench-retention bench-cold bench-plot bench-workers bench-costs simulate chaos mutants
.PHONY: lock audit clean

help:
	@echo 'make test    install into .venv when needed, then the linters and all tests'
	@echo 'make test-peers  import what the real langgraph-checkpoint-redis writes (installs it; RECORD=1 records that anew)'
	@echo 'make check   the linters and the type checker only'
	@echo 'make fmt     format, and repair what the linter can repair'
	@echo 'make demo    watch threads move between the tiers for about a minute'
	@echo 'make bench   compare with other savers (BENCH_OPTIONS=--help); also bench-archive, bench-memory, bench-growth,'
	@echo '             bench-retention, bench-cold, bench-plot, bench-workers, bench-costs'
	@echo 'make simulate  print the tables of deploy/SCALING.md from what bench-costs measured'
	@echo 'make chaos   agents write, workers move, faults strike, everything is read back (MINUTES=5 SEED=7 CHAOS_OPTIONS=--through)'
	@echo '             with CLUSTER=1 on a cluster whose primaries are killed and fail over'
	@echo 'make mutants take each guard of the protocol out and see that a test fails (GUARDS="drop trim" for some)'
	@echo 'make lock    resolve requirements.lock anew (LOCK_OPTIONS=--upgrade for newer versions)'
	@echo 'make audit   look for known weaknesses of the locked versions (needs the network)'
	@echo 'make clean   remove .venv, caches and build output'

test: check
	$(BIN)/python -m pytest -q

# Some of it in an environment of its own, below .venv-bench.
test-peers: $(READY)
	TEST_PEERS=$(if $(RECORD),record,run) $(BIN)/python -m pytest -q tests/peers

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(READY)
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

demo: $(READY)
	$(BIN)/tier demo

# Peers are installed below .venv-bench, each in an environment of its own.
bench: $(READY)
	$(BIN)/python -m tests.bench $(BENCH_OPTIONS)

bench-archive bench-memory bench-growth bench-retention bench-cold bench-plot bench-workers bench-costs: bench-%: $(READY)
	$(BIN)/python -m tests.bench.$* $(BENCH_OPTIONS)

simulate: $(READY)
	$(BIN)/python -m tests.bench.simulate

chaos: $(READY)
	$(BIN)/python -m tests.faults.chaos --minutes $(or $(MINUTES),1) $(if $(SEED),--seed $(SEED)) $(if $(CLUSTER),--cluster --through) \
	  $(CHAOS_OPTIONS)

mutants: $(READY)
	$(BIN)/python -m tests.movement.mutants $(GUARDS)

# The old lock is read too, so a version stays until it must change or LOCK_OPTIONS says --upgrade.
lock: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(LOCK_OPTIONS) \
	  --output-file requirements.lock pyproject.toml

# In an environment of its own: what it needs is none of ours. The lock names every version, so nothing is resolved.
audit:
	python3 -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet pip-audit
	.venv-audit/bin/pip-audit --disable-pip --require-hashes --requirement requirements.lock

clean:
	rm -rf .venv .venv-audit .venv-bench build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find saver jobs worker tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is touched last: an install that was cut short is done again.
$(READY): requirements.lock pyproject.toml
	@$(BIN)/python -c '' 2>/dev/null || { \
	  for python in $(CANDIDATES); do \
	    "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    echo "making .venv with $$("$$python" --version)"; \
	    exec "$$python" -m venv --clear .venv; \
	  done; \
	  echo 'No Python 3.11 or newer with the venv module was found; tried: $(CANDIDATES).' >&2; \
	  echo 'Install one (on Debian and Ubuntu: python3 and python3-venv), or name it: make PYTHON=/path/to/python3' >&2; \
	  exit 1; \
	}
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)
