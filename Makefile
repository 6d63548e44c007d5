# Every target does its own set-up, once: a virtual environment in .venv with the tested versions.
#   make test          make PYTHON=python3.12 test          make bench BENCH_ARGS="--help"
# Another PYTHON for an existing .venv: make clean first.

PYTHON ?= python3
BENCH_ARGS ?=
TEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
BENCH_READY := $(VENV)/.bench-ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help setup test lint format demo bench bench-accuracy docs dist clean

help:
	@echo "make setup    virtual environment in $(VENV), installed for development"
	@echo "make test     the tests                      (TEST_ARGS for pytest)"
	@echo "make lint     ruff check, ruff format --check, mypy"
	@echo "make format   let ruff put the layout and imports right"
	@echo "make demo     the demonstration; writes demo-output/"
	@echo "make bench    how fast: benchmarks/speed.py  (BENCH_ARGS for it, as --quick)"
	@echo "make bench-accuracy   how good: benchmarks/accuracy.py   (BENCH_ARGS for it)"
	@echo "make docs     the documentation, in site/"
	@echo "make dist     wheel and sdist, in dist/"
	@echo "make clean    remove $(VENV) and everything built"

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

$(DOCS_READY): $(READY)
	$(PIP) install -c constraints.txt -e ".[dev,docs]"
	touch $@

$(BENCH_READY): $(READY)
	$(PIP) install -c constraints.txt -e ".[dev,bench]"
	touch $@

setup: $(READY)

test: $(READY)
	$(BIN)/python -m pytest -n auto $(TEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(READY)
	$(BIN)/recyclegp demo

bench: $(BENCH_READY)
	$(BIN)/python benchmarks/speed.py $(BENCH_ARGS)

bench-accuracy: $(READY)
	$(BIN)/python benchmarks/accuracy.py $(BENCH_ARGS)

# mkdocs-material announces at every build that it will end with mkdocs 1; both are pinned below their next versions
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(READY)
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) .cache dist build site demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
