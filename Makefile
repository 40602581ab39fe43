# Every target sets up what it needs; `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# with it every start of icf translates the sources again
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3# the interpreter that .venv is made from; 3.11 or later
PYTEST_ARGS ?=# for example: make test PYTEST_ARGS='-k cli -x'
RUN := .venv/bin/python
# in the order of the folders: those with few tests are the slow ones, and must not come last
PYTEST := $(RUN) -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test check format bench accuracy docs build setup setup-demo clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup-demo ## a program linked with folding: the wrong names of today, the pass, and the right names
	@$(RUN) -m demo.run

test: setup ## the whole test suite; PYTEST_ARGS='-k cli -x' selects
	@$(PYTEST) $(PYTEST_ARGS)

check: setup ## formatting, lint, types, tests: what must pass before a commit
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(PYTEST) $(PYTEST_ARGS)

format: setup ## rewrite the sources as `make check` wants them
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

bench: setup ## how fast: everything beside its peers, as one page: docs/benchmarks.md; leave the machine alone
	@$(RUN) -m tests.bench --page docs/benchmarks.md

accuracy: setup ## how right: frames of real programs against their links without folding, as one page: docs/accuracy.md
	@$(RUN) -m tests.truth.page docs/accuracy.md

docs: setup ## the documentation as a site in build/docs; offline once its packages are installed
	@$(RUN) -c 'import material, mkdocs, mkdocstrings' 2>/dev/null || $(RUN) -m pip install --quiet --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet --strict && echo build/docs/index.html

build: setup-demo ## an sdist and the wheel that it makes in dist/, and the wheel tried where nothing else is
	@$(RUN) -c 'import build.__main__' 2>/dev/null || $(RUN) -m pip install --quiet 'build>=1.2'
	@rm -rf dist
	@$(RUN) -m build --outdir dist .
	@$(RUN) -m venv --clear build/installed
	@build/installed/bin/python -m pip install --quiet dist/*.whl
	@build/installed/bin/python tools/try_install.py

setup: ## .venv with the package and its compiled kernels; Debian packages for the tests too when root
	@PYTHON='$(PYTHON)' tools/setup test

setup-demo: # the same with the few Debian packages that the demo needs
	@PYTHON='$(PYTHON)' tools/setup demo

clean: ## remove everything that was built, .venv too
	rm -rf .venv .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find icf linkpass unwind tests demo -name __pycache__ -prune -exec rm -rf {} +
	find icf unwind -name '_*.so' -delete -o -name '_*.c' -delete
