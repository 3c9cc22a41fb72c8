# make bench · make test · make help. Everything is made inside this folder.

PYTHON ?= python3
STUDY ?=
TARGETS ?=
ARGUMENTS ?=
CORES ?= 1

# Environments: conda where it is on the PATH, otherwise venvs; `make bench DEPLOY=none` for the
# Python at hand.
DEPLOY ?= $(if $(shell command -v conda 2>/dev/null),conda,venv)
DEPLOYING = $(if $(filter conda,$(DEPLOY)),--use-conda,--config deploy=$(DEPLOY))
SNAKEMAKE = .venv/bin/snakemake --cores $(CORES) $(if $(STUDY),--configfile config/studies/$(STUDY).yaml)

export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup bench slurm slurm-plan report stale bundle unpack doctor test test-blas lint benchmarks clean

help: ## this list
	@echo 'make bench                 measure this machine, print a table, write reports/index.html'
	@echo 'make bench STUDY=exercise  another question: a file of config/studies'
	@echo 'make bench DEPLOY=venv     environments by uv (default without conda), conda, or none'
	@echo 'make slurm                 the machines of the study through SLURM (MACHINES=icelake,h200 STUDY=… CELLS=50)'
	@echo 'make slurm-plan            what that would send where, and the node-hours at most'
	@echo 'make report                tables and page from what lies under results/'
	@echo 'make stale                 which results no longer describe this machine, and why'
	@echo 'make bundle                one machine'"'"'s results in one file (MACHINE=… OUT=… IDENTIFY=1)'
	@echo 'make unpack BUNDLE=file    take in the results of another machine (AS=another-name)'
	@echo 'make doctor                what makes timings noisy on this machine, and the cure'
	@echo 'make test                  the tests; make lint: format, lint, types'
	@echo 'make test-blas             four BLAS libraries under one NumPy (minutes; Debian, x86-64)'
	@echo 'make benchmarks            how gemmgrid itself measures and costs'
	@echo 'make clean                 remove environments and caches, never results'

setup: .venv/ready

.venv/ready: requirements/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "gemmgrid needs Python 3.11 or newer; $(PYTHON) is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo 'setting up .venv (once) …'
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' $<)"
	@.venv/bin/uv pip install --quiet --python .venv/bin/python -r $<
	@.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.venv/ready-to-test: requirements/test.txt .venv/ready
	@echo 'setting up the tests (once) …'
	@.venv/bin/uv pip install --quiet --python .venv/bin/python -r $<
	@touch $@

bench: setup
	@$(SNAKEMAKE) $(DEPLOYING) $(ARGUMENTS) $(TARGETS)
	@echo "The report: $(CURDIR)/reports/index.html"

# All words for --config together: Snakemake takes the last --config only.
SENDING = $(strip $(if $(MACHINES),machines=$(MACHINES)) $(if $(CELLS),cells_per_allocation=$(CELLS)) \
	$(filter-out deploy=venv deploy=conda,deploy=$(DEPLOY)) $(CONFIG))
THROUGH_SLURM = .venv/bin/snakemake --profile profiles/slurm $(if $(STUDY),--configfile config/studies/$(STUDY).yaml) \
	$(if $(filter conda,$(DEPLOY)),--use-conda) \
	$(if $(SENDING),--config $(SENDING))

slurm: setup
	@$(THROUGH_SLURM) $(ARGUMENTS)
	@echo "The report: $(CURDIR)/reports/index.html"

slurm-plan: setup
	@$(THROUGH_SLURM) --dry-run $(ARGUMENTS)

report: setup
	@$(SNAKEMAKE) --config deploy=$(DEPLOY) $(ARGUMENTS) -- report

stale: setup
	@.venv/bin/snakemake --cores 1 $@ $(if $(STUDY),--configfile config/studies/$(STUDY).yaml) $(DEPLOYING) $(ARGUMENTS)

BUNDLES = PYTHONPATH=workflow .venv/bin/python -m gemmgrid.report.bundles

bundle: setup
	@$(BUNDLES) pack $(if $(MACHINE),--machine '$(MACHINE)') $(if $(OUT),--out '$(OUT)') $(if $(IDENTIFY),--identify)

unpack: setup
	@test -n '$(BUNDLE)' || { echo 'which bundle? make unpack BUNDLE=gemmgrid-….zip' >&2; exit 1; }
	@$(BUNDLES) unpack '$(BUNDLE)' $(if $(AS),--as '$(AS)')

doctor: setup
	@PYTHONPATH=workflow .venv/bin/python -m gemmgrid.measure.doctor

test: .venv/ready-to-test
	@.venv/bin/python -m pytest $(ARGUMENTS)

test-blas: .venv/ready-to-test
	@.venv/bin/python -m pytest -s tests/conda/blas/variants.py $(ARGUMENTS)

lint: .venv/ready-to-test
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/snakefmt --check Snakefile workflow
	.venv/bin/mypy
	.venv/bin/snakemake --lint

benchmarks: .venv/ready-to-test
	@for program in benchmarks/*.py; do echo "== $$program"; .venv/bin/python $$program || exit 1; done

clean:
	rm -rf .venv .envs .snakemake .pytest_cache .ruff_cache .mypy_cache
