# Two commands matter: `make demo` and `make test`. Each sets up everything it needs, and nothing else.
SHELL := /bin/sh
BIN := .venv/bin
# Numba's cache checks only a kernel's own file, not the functions it inlines from others: one cache per state of the
# sources, so that it never serves stale machine code.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba/$(shell find src/skewless -name '*.py' | LC_ALL=C sort | xargs cat | cksum | cut -d' ' -f1)

SEEDS ?= 0:1000
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup --durations 10

.DEFAULT_GOAL := help
.PHONY: help setup services demo test test-all test-versions checks lint types imports classes kernels docs versions unit \
  crashes chaos soak mutants format bench benchmarks notebooks experiments wheel release-check audit lock clean

# What runs on every version of Spark: batch jobs and Connect. Tests of what a version lacks skip themselves there.
ON_VERSIONS := $(addprefix tests/spark/test_,$(addsuffix .py,connect diagnose_spark exactness explain group_api group_batch \
  grouping_plan join join_sampling local mean_of_decimals merge native_aggregates over porting repartition route versions \
  whole_keys)) tests/test_notebooks.py
STREAMS := tests/spark/test_group_stream.py tests/spark/test_stateful.py
# The sample of `make test`: what takes another way on the oldest version.
SAMPLE := tests/spark/test_versions.py tests/spark/test_over.py::test_hot_partitions_are_even_and_rows_are_exchanged_once \
  tests/spark/test_join.py::test_a_key_that_is_hot_on_both_sides \
  tests/spark/test_join.py::test_unless_a_number_is_asked_for_adaptive_execution_may_join_tasks

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## Virtual environment, locked dependencies, Java (takes no time when they are in place)
	@scripts/setup.sh

demo: setup ## A stream with one hot key through four groupings on Spark; table and plot (a few minutes)
	@$(BIN)/python -m skewless.spark.deploy.kernels
	$(BIN)/skewless demo --plot demo/load.png

test: services ## Everything that must pass: lint, types, import rules, docs, tests, a sample on the oldest Spark
	@$(MAKE) --no-print-directory --jobs 2 checks
	@$(MAKE) --no-print-directory unit

test-all: services checks test-versions ## The nightly job: also long tests, all groupings, all versions, new random seeds (hours)
	@seed=$${SKEWLESS_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; set -x; \
	SKEWLESS_CHAOS=1 SKEWLESS_SEED=$$seed $(PYTEST) --hypothesis-seed=$$seed

test-versions: setup ## Batch jobs and Connect on Spark 3.5, 4.0, 4.1 and 4.2, each in an environment of its own (an hour)
	scripts/versions.sh 3.5 4.0 4.1 4.2 -- $(ON_VERSIONS)
	scripts/versions.sh 4.2 -- $(STREAMS)

checks: types classes kernels lint imports docs versions

docs: setup ## The docs site, into site/; broken links and unknown names are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

versions: setup
	scripts/versions.sh 3.5 -- $(SAMPLE)

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

N ?= 200
SEED ?= 0
mutants: setup kernels ## Change the source in N places (of seed SEED), one at a time: how many changes do the tests notice?
	$(BIN)/python scripts/mutants.py --sample $(N) --seed $(SEED)

chaos: services classes kernels ## N faults of seed SEED on Spark, each answer compared with plain Spark; goes on where it was stopped; ONLY=seed:index repeats one
	PYTHONPATH=tests $(BIN)/python tests/chaos/run.py --faults $(N) --seed $(SEED) $(if $(STAGE),--stage $(STAGE)) $(if $(KIND),--kind "$(KIND)") $(if $(ONLY),--only $(ONLY))

MINUTES ?= 60
soak: setup kernels ## A stream at 80 % of its capacity for MINUTES: memory, directories and open files must not grow
	@$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

crashes: setup ## Histories that crash at every storage operation, SEEDS=0:1000; goes on where it was stopped (1,000 seeds: half an hour)
	PYTHONPATH=tests $(BIN)/python tests/simulated/crashes.py $(SEEDS)

format: setup ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Routing speed next to the naive twins; cost and gain of the operator on Spark (takes a while)
	$(BIN)/python benchmarks/routing.py
	$(BIN)/python benchmarks/spark_operator.py exchange
	$(BIN)/python benchmarks/spark_operator.py throughput

benchmarks: setup ## One table beside plain Spark and what people write by hand, into docs/benchmarks (an hour, on a quiet machine)
	$(BIN)/python benchmarks/table.py

notebooks: setup ## Run the notebooks of the docs, and keep what they show
	$(BIN)/python scripts/notebooks.py

wheel: setup ## Wheel and source distribution, into dist/
	@rm -rf dist
	$(BIN)/hatchling build

release-check: wheel ## Install wheel and source distribution in empty environments, and run the examples of README
	scripts/release_check.sh

experiments: setup ## All tables and figures of the papers, in virtual time and on Spark, into docs/experiments (half an hour)
	$(BIN)/skewless experiment run all --engine both
	$(BIN)/skewless experiment report --to docs/experiments

audit: setup ## Known vulnerabilities of the locked packages, from a copy of an advisory database: ADVISORIES=…/vulns
	$(BIN)/python scripts/audit.py $(ADVISORIES)

lock: setup ## Resolve requirements.lock again from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	  --extra spark --extra connect --extra plots --extra kafka --group dev --group docs pyproject.toml -o requirements.lock

clean: ## Remove the environment and every cache
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist demo site
