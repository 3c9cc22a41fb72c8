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

.PHONY: help setup bench report doctor test lint benchmarks clean

help: ## this list
	@echo 'make bench                 measure this machine, print a table, write reports/index.html'
	@echo 'make bench STUDY=exercise  another question: a file of config/studies'
	@echo 'make bench DEPLOY=venv     environments by uv (default without conda), conda, or none'
	@echo 'make report                tables and page from what lies under results/'
	@echo 'make doctor                what makes timings noisy on this machine, and the cure'
	@echo 'make test                  the tests; make lint: format, lint, types'
	@echo 'make benchmarks            how gemmgrid itself measures and costs'
	@echo 'make clean                 remove environments and caches, never results'

setup: .venv/ready

.venv/ready: requirements/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "gemmgrid needs Python 3.11 or newer; $(PYTHON) is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo 'setting up .venv (once) …'
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' $<)"
	@.venv/bin/uv pip install --quiet --python .venv/bin/python -r $<
	@touch $@

.venv/ready-to-test: requirements/test.txt .venv/ready
	@echo 'setting up the tests (once) …'
	@.venv/bin/uv pip install --quiet --python .venv/bin/python -r $<
	@touch $@

bench: setup
	@$(SNAKEMAKE) $(DEPLOYING) $(ARGUMENTS) $(TARGETS)
	@echo "The report: $(CURDIR)/reports/index.html"

report: setup
	@$(SNAKEMAKE) --config deploy=$(DEPLOY) $(ARGUMENTS) -- report

doctor: setup
	@PYTHONPATH=workflow .venv/bin/python -m gemmgrid.measure.doctor

test: .venv/ready-to-test
	@.venv/bin/python -m pytest $(ARGUMENTS)

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
