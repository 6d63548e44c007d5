# Every target does its own set-up, once: a virtual environment in .venv with the tested versions, and in it what the
# target needs and no more. `make setup` installs everything, so that no test is skipped for want of a package.
#   make test          make PYTHON=python3.12 test          make bench BENCH_ARGS="--help"
# Another PYTHON for an existing .venv: make clean first.

PYTHON ?= python3
BENCH_ARGS ?=
PAGES ?=
TEST_ARGS ?=
FUZZ_ARGS ?= --cases 100000

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WITH := $(VENV)/.with-
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Environments of their own: the oldest versions; GPflow and GPJax, which bring TensorFlow and JAX: both are large, and
# want different numpys; and Flower, which wants an older rich, typer and starlette.
LOWEST := .venv-lowest
GPFLOW := .venv-gpflow
GPJAX := .venv-gpjax
FLOWER := .venv-flower
CLEAN := .venv-release
PEER_INSTALL := -m pip --disable-pip-version-check --quiet install
# ends the process, also inside a call that hangs, as JAX's triangular solves can on two cores
PEER_TEST := -m pytest --timeout=120 --timeout-method=thread $(TEST_ARGS)
ONE_CORE := $(shell command -v taskset > /dev/null && echo taskset -c 0)
LIMIT := $(shell command -v timeout > /dev/null && echo timeout 600)

.DEFAULT_GOAL := help
.PHONY: help setup test test-fast test-lowest test-peers test-flower coverage fuzz lint format help-pages demo bench bench-guard bench-accuracy bench-calibration bench-privacy docs pages dist release clean

help:
	@echo "make setup    virtual environment in $(VENV) with everything for development; other targets install what they need"
	@echo "make test     all tests; after make setup none is skipped for want of a package   (TEST_ARGS for pytest)"
	@echo "make test-fast    those that are not marked slow: two minutes on two cores   (TEST_ARGS for pytest)"
	@echo "make coverage     all tests, and which lines and branches they ran: a table, and htmlcov/"
	@echo "make test-lowest  the fast tests with the oldest versions that pyproject.toml allows, in .venv-lowest"
	@echo "make test-peers   the tests of GPflow and GPJax, in .venv-gpflow and .venv-gpjax, and how exact they are"
	@echo "make test-flower  rounds over Flower, with real SuperLink and SuperNode processes, in .venv-flower   (TEST_ARGS for pytest)"
	@echo "make fuzz     reads 100,000 broken files, and merges some of them: none may crash, hang, take seconds, or need 64 MiB more than idle   (FUZZ_ARGS)"
	@echo "make lint     ruff check, ruff format --check, mypy, and who may import whom (import-linter)"
	@echo "make format   let ruff put the layout and imports right"
	@echo "make help-pages   writes src/recyclegp/cli/help anew, which --help prints: after a change to commands or options"
	@echo "make demo     the demonstration; writes demo-output/"
	@echo "make bench    how fast: benchmarks/speed.py  (BENCH_ARGS for it, as --quick)"
	@echo "make bench-guard      has anything become slower, or worse? Ratios, counts and scores, in a minute; a lost row fails   (BENCH_ARGS for it)"
	@echo "make bench-accuracy   how good: benchmarks/accuracy.py   (BENCH_ARGS for it)"
	@echo "make bench-calibration   where merging loses: benchmarks/where_merging_loses.py   (BENCH_ARGS for it)"
	@echo "make bench-privacy   what leaks: benchmarks/what_leaks.py   (BENCH_ARGS for it)"
	@echo "make docs     the documentation, in site/"
	@echo "make pages    runs every block of README and documentation, and writes anew what they show   (PAGES for some of them)"
	@echo "make dist     wheel and sdist, in dist/"
	@echo "make release  the same, tried in an environment of their own, with notes, SBOM and checksums: all that is published"
	@echo "make clean    remove the environments and everything built"

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e .
	touch $@

# .venv/.with-lint has what the extra lint of pyproject.toml names, and so on
$(WITH)%: $(READY)
	$(PIP) install -c constraints.txt -e ".[$*]"
	touch $@

.PRECIOUS: $(WITH)%

setup: $(WITH)dev

test: $(WITH)test
	$(BIN)/python -m pytest -n auto $(TEST_ARGS)

test-fast: $(WITH)test
	$(BIN)/python -m pytest -n auto -m "not slow" $(TEST_ARGS)

# no limit on the time of a single test: being watched makes them slower
coverage: $(WITH)coverage
	$(BIN)/python -m pytest -n auto --timeout=0 --cov --cov-report=term --cov-report=html $(TEST_ARGS)

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(PEER_INSTALL) -c constraints-lowest.txt -e ".[sklearn,parquet,serve,excel]" \
		hypothesis pytest pytest-timeout pytest-xdist
	touch $@

test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest -n auto -m "not slow" $(TEST_ARGS)

$(GPFLOW)/.ready: pyproject.toml constraints.txt constraints-peers.txt
	test -x $(GPFLOW)/bin/python || $(PYTHON) -m venv $(GPFLOW)
	sed '/^numpy==/d;/^pandas==/d' constraints.txt > $(GPFLOW)/constraints.txt
	$(GPFLOW)/bin/python $(PEER_INSTALL) -c $(GPFLOW)/constraints.txt -c constraints-peers.txt \
		-e ".[gpflow]" pytest pytest-timeout
	touch $@

$(GPJAX)/.ready: pyproject.toml constraints.txt constraints-peers.txt
	test -x $(GPJAX)/bin/python || $(PYTHON) -m venv $(GPJAX)
	$(GPJAX)/bin/python $(PEER_INSTALL) -c constraints.txt -c constraints-peers.txt -e ".[gpjax]" pytest pytest-timeout
	$(GPJAX)/bin/python $(PEER_INSTALL) --no-deps --upgrade --target $(GPJAX)/older gpjax==0.18.0
	touch $@

test-peers: $(GPFLOW)/.ready $(GPJAX)/.ready
	$(LIMIT) $(GPFLOW)/bin/python $(PEER_TEST) tests/interop/test_gpflow.py
	$(LIMIT) $(GPFLOW)/bin/python tests/support/cases_gpflow.py
	$(LIMIT) $(ONE_CORE) $(GPJAX)/bin/python $(PEER_TEST) tests/interop/test_gpjax.py
	$(LIMIT) $(ONE_CORE) $(GPJAX)/bin/python tests/support/cases_gpjax.py
	PYTHONPATH=$(GPJAX)/older $(LIMIT) $(ONE_CORE) $(GPJAX)/bin/python $(PEER_TEST) tests/interop/test_gpjax.py
	PYTHONPATH=$(GPJAX)/older $(LIMIT) $(ONE_CORE) $(GPJAX)/bin/python tests/support/cases_gpjax.py

$(FLOWER)/.ready: pyproject.toml constraints.txt constraints-peers.txt
	test -x $(FLOWER)/bin/python || $(PYTHON) -m venv $(FLOWER)
	sed '/^rich==/d;/^typer==/d;/^starlette==/d;/^uvicorn==/d' constraints.txt > $(FLOWER)/constraints.txt
	$(FLOWER)/bin/python $(PEER_INSTALL) -c $(FLOWER)/constraints.txt -c constraints-peers.txt \
		-e ".[flower]" pytest pytest-timeout
	touch $@

test-flower: $(FLOWER)/.ready
	$(FLOWER)/bin/python -m pytest $(TEST_ARGS) tests/engines/test_flower.py

# atheris is optional: it is used where somebody has installed it
fuzz: $(WITH)test
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz_files.py $(FUZZ_ARGS)
	if $(BIN)/python -c "import atheris" 2> /dev/null; \
		then OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz_atheris.py -runs=20000; fi

lint: $(WITH)lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: $(WITH)lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

help-pages: $(READY)
	$(BIN)/python -m recyclegp.cli.write_pages

demo: $(READY)
	$(BIN)/recyclegp demo

bench: $(WITH)bench
	$(BIN)/python benchmarks/speed.py $(BENCH_ARGS)

bench-guard: $(WITH)bench
	$(BIN)/python benchmarks/guard.py $(BENCH_ARGS)

bench-accuracy: $(WITH)bench
	$(BIN)/python benchmarks/accuracy.py $(BENCH_ARGS)

bench-calibration: $(WITH)bench
	$(BIN)/python benchmarks/where_merging_loses.py $(BENCH_ARGS)

bench-privacy: $(WITH)bench
	$(BIN)/python benchmarks/what_leaks.py $(BENCH_ARGS)

# mkdocs-material announces at every build that it will end with mkdocs 1; both are pinned below their next versions
docs: $(WITH)docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# what pages show of commands and code, and the tables of benchmarks from their kept results
pages: $(WITH)test-all
	$(BIN)/python docs/hooks/blocks.py $(PAGES)
	$(BIN)/python benchmarks/pages.py

dist: $(WITH)release
	$(BIN)/python -m build --no-isolation

# wheel, sdist, notes, SBOM and checksums in dist/, after the wheel has worked in an environment of its own
release: $(WITH)release
	rm -rf dist $(CLEAN)
	$(BIN)/python -m build --no-isolation
	$(PYTHON) -m venv $(CLEAN)
	$(BIN)/python .ci/release.py --python $(CLEAN)/bin/python

clean:
	rm -rf $(VENV) $(LOWEST) $(GPFLOW) $(GPJAX) $(FLOWER) $(CLEAN) .cache dist build site demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis htmlcov
