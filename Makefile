# `make demo` and `make test` set up everything they need in .venv the first time, and are quick after that.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
TORCH  := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)
STAMP  := $(VENV)/.ready
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-sglang test test-engines lint types check bench serve clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml hooks/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or say make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V)"; exit 1; }
	@echo "==> 1/4 virtual environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "==> 2/4 $(TORCH), the largest part (a few minutes on a slow network)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" -c constraints.txt
	@echo "==> 3/4 the collector, the hooks, the transfer engine, and what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e hooks -e ".[demo,dev]"
	@echo "==> 4/4 ready"
	@touch $@

setup: $(STAMP) ## install into .venv (the others do it when needed)

demo: $(STAMP) ## move real KV pages between two processes, inject faults, show what was found
	@$(BIN)/pd-tracer demo $(ARGS)

demo-sglang: $(STAMP) ## a real SGLang pair with its router on this CPU, damaged on purpose (first time: 2.4 GB)
	@tests/engines/sglang/setup.sh
	@PYTHONPATH=tests $(BIN)/python -m engines.sglang.demo $(ARGS)

test-engines: $(STAMP) ## the tests that run real engines, in environments of their own
	@tests/engines/sglang/setup.sh
	@$(BIN)/python -m pytest -m engine -s tests/engines $(ARGS)

test: $(STAMP) ## the tests, on SQLite and PostgreSQL (ARGS="-k name" to choose)
	@$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP) ## ruff, check and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP) ## mypy, strict
	@$(BIN)/mypy

check: lint types test ## everything that CI demands

bench: $(STAMP) ## end-to-end ratios on this machine, a few minutes
	@$(BIN)/python bench/ingest.py $(ARGS)

serve: $(STAMP) ## a collector on SQLite at http://127.0.0.1:8400
	@$(BIN)/pd-tracer serve $(ARGS)

clean: ## remove caches and the virtual environment
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
