# Two commands matter: `make demo` and `make test`. Both set up everything they need.
SHELL := /bin/sh
BIN := .venv/bin
# Numba's cache looks only at a kernel's own file, not at the functions it inlines from others:
# a cache per state of the sources keeps it from serving stale machine code.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba/$(shell cat src/skewless/*.py src/skewless/*/*.py | cksum | cut -d' ' -f1)

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types imports classes kernels unit format bench experiments lock clean

help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## Virtual environment, locked dependencies, Java (done at once when in place)
	@scripts/setup.sh

demo: setup ## A stream with one hot key through four groupings on Spark; table and plot (some minutes)
	$(BIN)/skewless demo --plot demo/load.png

test: setup ## Everything that must be green: lint, types, import rules, tests
	@$(MAKE) --no-print-directory --jobs 2 types classes kernels lint imports
	@$(MAKE) --no-print-directory unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --cache-dir .import_linter_cache

# What all processes that run tests share, made once: Spark's classes for Java, kernels for Numba.
classes: setup
	@$(BIN)/python tests/services/class_archive.py

kernels: setup
	@$(BIN)/python tests/services/kernels.py

unit: setup classes
	$(BIN)/pytest -n 2 --dist loadgroup --durations 10

format: setup ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Routing speed beside the naive twins; cost and gain of the operator on Spark (takes a while)
	$(BIN)/python benchmarks/routing.py
	$(BIN)/python benchmarks/spark_operator.py exchange
	$(BIN)/python benchmarks/spark_operator.py throughput

experiments: setup ## All tables and figures of the papers, in virtual time and on Spark, into docs/experiments (half an hour)
	$(BIN)/skewless experiment run all --engine both
	$(BIN)/skewless experiment report --to docs/experiments

lock: setup ## Resolve requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	  --extra spark --extra connect --extra plots --extra kafka --group dev pyproject.toml -o requirements.lock

clean: ## Remove the environment and every cache
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist demo
