# Two commands matter: `make demo` and `make test`. Each sets up everything it needs, and nothing else.
SHELL := /bin/sh
BIN := .venv/bin
# Numba's cache checks only a kernel's own file, not the functions it inlines from others: one cache per state of the
# sources, so that it never serves stale machine code.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba/$(shell find src/skewless -name '*.py' | LC_ALL=C sort | xargs cat | cksum | cut -d' ' -f1)

PYTEST := $(BIN)/pytest -n 2 --dist loadgroup --durations 10

.DEFAULT_GOAL := help
.PHONY: help setup services demo test test-all checks lint types imports classes kernels unit format bench experiments lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## Virtual environment, locked dependencies, Java (takes no time when they are in place)
	@scripts/setup.sh

demo: setup ## A stream with one hot key through four groupings on Spark; table and plot (a few minutes)
	@$(BIN)/python -m skewless.spark.deploy.kernels
	$(BIN)/skewless demo --plot demo/load.png

test: services ## Everything that must pass: lint, types, import rules, tests
	@$(MAKE) --no-print-directory --jobs 2 checks
	@$(MAKE) --no-print-directory unit

test-all: services checks ## The nightly job: also long tests, all groupings, more examples, new random seeds (hours)
	@seed=$${SKEWLESS_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; set -x; \
	SKEWLESS_CHAOS=1 SKEWLESS_SEED=$$seed $(PYTEST) --hypothesis-seed=$$seed

checks: types classes kernels lint imports

# What `make test` needs beyond `make demo`: InfluxDB, Prometheus, a browser.
services:
	@scripts/setup.sh tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --cache-dir .import_linter_cache

# Made once for all processes that run tests: an archive of Spark's classes for Java, compiled kernels for Numba.
classes: setup
	@$(BIN)/python tests/services/class_archive.py

kernels: setup
	@$(BIN)/python tests/services/kernels.py

unit: services classes kernels
	$(PYTEST)

format: setup ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Routing speed next to the naive twins; cost and gain of the operator on Spark (takes a while)
	$(BIN)/python benchmarks/routing.py
	$(BIN)/python benchmarks/spark_operator.py exchange
	$(BIN)/python benchmarks/spark_operator.py throughput

experiments: setup ## All tables and figures of the papers, in virtual time and on Spark, into docs/experiments (half an hour)
	$(BIN)/skewless experiment run all --engine both
	$(BIN)/skewless experiment report --to docs/experiments

lock: setup ## Resolve requirements.lock again from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	  --extra spark --extra connect --extra plots --extra kafka --group dev pyproject.toml -o requirements.lock

clean: ## Remove the environment and every cache
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist demo
