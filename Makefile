# `make help` shows the targets. Each sets up .venv on a fresh machine, then does its job.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2
# Kernels first, all cores at work: else every process would wait for those that its tests reach.
TESTS  := $(BIN)/lowtide compile --quiet >/dev/null && $(BIN)/pytest -q --numprocesses $(JOBS)
# Of random cases: `full` are all of them, `sixth` every sixth one, `fast` an eighth (tests/effort.py).
PROFILE ?= fast
# Frameworks that adapters are for, beside .venv, as tried. executorch names packages of gigabytes: only what it imports here.
BESIDE          := $(VENV)/frameworks
FRAMEWORKS      ?= torch==2.13.0 jax==0.10.2 onnxruntime==1.32.0 scipy tabulate ruamel.yaml $(LITE)
LITE            ?= tflite-micro==0.dev20261023182759 ai-edge-litert==2.3.0
EXECUTORCH      ?= executorch==1.5.1 torchao==0.18.0
FRAMEWORK_TESTS ?= not slow
# Of the slow tests, one in so many, drawn by the commit (tests/drawn.py); all of them: 1.
ONE_IN ?= 1
# The tests of Slurm share one, in one process.
SLURM  := --dist loadgroup

# Tests are parsed once, not in every process.
export PYTHONDONTWRITEBYTECODE :=

.DELETE_ON_ERROR:
.DEFAULT_GOAL := demo
.PHONY: demo help docs test test-slow test-frameworks test-all lint bench bench-compilers bench-limits bench-makespan bench-offsets \
	bench-placement bench-recompute clean

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

demo: $(READY) ## set up .venv, solve a real training graph, verify it, draw it
	$(BIN)/lowtide demo

test: $(READY) ## run the fast tests in JOBS processes (default 2)
	$(TESTS) -m "not slow" --hypothesis-profile=$(PROFILE) --dist worksteal

test-slow: $(READY) ## run the slow tests, on a sixth of their random cases (ONE_IN=4: a quarter of them, drawn by the commit)
	$(TESTS) -m slow --hypothesis-profile=sixth --one-in $(ONE_IN) $(SLURM)

test-frameworks: $(VENV)/.frameworks ## install torch, executorch, jax beside .venv, run the tests that need them (FRAMEWORK_TESTS=: slow ones too)
	$(BIN)/lowtide compile --quiet >/dev/null
	$(BESIDE)/bin/python -m pytest -q --numprocesses $(JOBS) -m "$(FRAMEWORK_TESTS)" --hypothesis-profile=$(PROFILE) \
		$$(grep -rlE --include='test_*.py' 'importorskip\("(torch|executorch|jax|onnxruntime|tflite_micro|ai_edge_litert)' tests)

test-all: $(READY) ## run all tests on all random cases
	$(TESTS) --hypothesis-profile=full $(SLURM)

lint: $(READY) ## run ruff, mypy --strict and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.docs ## build the site in docs/_build/html; a warning is an error
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html  # tutorials call lowtide

bench: $(READY) ## repeat the table peak_networks (minutes)
	$(BIN)/python -m lowtide.results.experiments peak_networks

bench-compilers: $(READY) ## repeat the table of compilers' orders (a quarter of an hour)
	$(BIN)/python -m lowtide.results.experiments peak_compilers

bench-makespan: $(READY) ## repeat the tables of makespans (hours)
	$(BIN)/python -m lowtide.results.experiments makespan_exact
	$(BIN)/python -m lowtide.results.experiments makespan_tradeoff
	$(BIN)/python -m lowtide.results.experiments makespan_large

# MINIMALLOC: the binary, built with -O3 from github.com/google/minimalloc; OMNIMALLOC: a Python that has it.
bench-offsets: $(READY) ## repeat the tables of addresses; MINIMALLOC=BINARY, OMNIMALLOC=PYTHON
	$(BIN)/python -m lowtide.results.experiments offsets_heights
	$(if $(MINIMALLOC),$(BIN)/python -m lowtide.results.experiments offsets_speed --minimalloc "$(MINIMALLOC)" $(if $(OMNIMALLOC),--omnimalloc "$(OMNIMALLOC)"))

bench-limits: $(READY) ## repeat the table of time limits (20 minutes)
	$(BIN)/python -m lowtide.results.experiments limits

bench-placement: $(READY) ## repeat the tables of placement (hours)
	$(BIN)/python -m lowtide.results.experiments placement_chains
	$(BIN)/python -m lowtide.results.experiments placement_g10
	$(BIN)/python -m lowtide.results.experiments placement_machines
	$(BIN)/python -m lowtide.results.experiments placement_policies
	$(BIN)/python -m lowtide.results.experiments placement_latency
	$(BIN)/python -m lowtide.results.experiments placement_noise
	$(BIN)/python -m lowtide.results.experiments placement_timeline
	$(BIN)/python -m lowtide.results.experiments placement_autotm
	$(BIN)/python -m lowtide.results.experiments swap_systems
	$(BIN)/python -m lowtide.results.experiments placement_gpus

# TREES: data/trees of a clone of github.com/kulagins/tree-scheduler-refactored; without it its rows are left out.
# Without the peer the two tables that compare with it stay.
bench-recompute: $(READY) ## repeat the tables of recomputation and trees; TREES=FOLDER
	$(BIN)/python -m lowtide.results.experiments trees $(if $(TREES),--trees "$(TREES)")
	$(BIN)/python -m lowtide.results.experiments minio
	-$(BIN)/python -m pip install -qq --disable-pip-version-check checkpoint_schedules==1.0.4  # the peer beside
	-$(BIN)/python -m lowtide.results.experiments recompute_chains
	-$(BIN)/python -m lowtide.results.experiments recompute_chains_speed
	$(BIN)/python -m lowtide.results.experiments recompute_graphs --seconds 300

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"lowtide needs Python 3.11 or newer, found {v[0]}.{v[1]}; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[all,dev]'
	$(BIN)/python -m compileall -qq *.py cli formulations instances models results solvers  # as pip does for others
	mkdir -p $(VENV)/src && ln -sfn ../.. $(VENV)/src/lowtide  # mypy reads the package under its own name
	touch $@

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs]'
	touch $@

# A second environment that sees all of .venv: frameworks are large, and all other tests do without them.
$(VENV)/.frameworks: $(READY)
	$(BIN)/python -m venv --clear --without-pip $(BESIDE)
	for lib in $(BESIDE)/lib/python*/site-packages; do \
		echo "import site; site.addsitedir('$(abspath $(VENV))/$${lib#$(BESIDE)/}')" >$$lib/below.pth; done
	$(BIN)/python -m pip --python $(BESIDE)/bin/python install -qq --disable-pip-version-check $(FRAMEWORKS)
	$(BIN)/python -m pip --python $(BESIDE)/bin/python install -qq --disable-pip-version-check --no-deps $(EXECUTORCH)
	$(BESIDE)/bin/python -c 'import torch, executorch.exir, jax, onnxruntime'  # else their tests would be skipped
	touch $@

clean: ## remove .venv and build files
	rm -rf $(VENV) build dist *.egg-info
