# `make demo` and `make test` need Python 3.10+ and make; they fetch everything else themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH ?= fixed-cost
FUZZ ?= tests/theory
MINUTES ?= 10
export HEADWATER_CACHE := $(CURDIR)/.cache

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all soak fuzz bench lint check format clean distclean

help:
	@echo "make demo    a small lake, three views, refreshes to several moments, each checked"
	@echo "make test    the tests"
	@echo "make test-all  the tests, and those that need many minutes of Spark"
	@echo "make check   style, types, imports"
	@echo "make soak    long random runs on Spark       make fuzz    new random examples and views: MINUTES=$(MINUTES) SEED=..."
	@echo "make bench   BENCH=$(BENCH)              make clean   what builds and tests left behind"

setup: .cache/ready

$(VENV)/installed: pyproject.toml constraints.txt tools/ensure_venv.sh
	@sh tools/ensure_venv.sh "$(PYTHON)" $(VENV)
	@echo "==> Python packages into $(VENV) (some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.cache/ready: $(VENV)/installed tools/ensure_java.sh
	@mkdir -p .cache
	@sh tools/ensure_java.sh $(BIN)/python
	@echo "==> Delta Lake jars into .cache"
	@$(BIN)/python -W ignore::RuntimeWarning:runpy -m headwater.engine.jars
	@touch $@

demo: setup
	@$(BIN)/headwater demo $(ARGS)

test: setup
	@sh tools/run_tests.sh $(BIN)/python $(ARGS)

test-all: setup
	@$(BIN)/python -m pytest -m 'not soak' $(ARGS)

soak: setup
	@$(BIN)/python -m pytest -m soak --timeout=0 $(ARGS)

fuzz: setup
	@HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest $(FUZZ)
	@$(BIN)/python -m tests.fuzz --readings --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: setup
	@mkdir -p bench/results
	@$(BIN)/headwater bench $(BENCH) --json bench/results/$(BENCH).json $(ARGS)

lint: $(VENV)/installed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

check: lint
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/installed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	@rm -rf build dist spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@rm -rf $(VENV) .cache src/*.egg-info
