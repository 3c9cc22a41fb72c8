# make bench · make test · make help. Everything is made inside this folder.

# What may be given on make's command line, and nowhere else: an AS, MACHINE or OUT of make's own or
# of the environment does not count. Programs get the values through the environment as they were
# typed: neither make nor a shell expands them.
ASKED := PYTHON STUDY TARGETS ARGUMENTS CORES DEPLOY MACHINES CELLS CONFIG MACHINE OUT IDENTIFY BUNDLE AS
$(foreach name,$(ASKED),$(if $(findstring command,$(origin $(name))),\
	$(eval override $(name) := $$(value $(name)))$(eval export $(name)),$(eval $(name) :=)))

export PATH := $(CURDIR)/.venv/bin:$(PATH)
GEMMGRID = PYTHONPATH="workflow$${PYTHONPATH:+:$$PYTHONPATH}" .venv/bin/python -m gemmgrid

.PHONY: help setup bench slurm slurm-plan report stale bundle unpack doctor test test-all test-blas lint benchmarks clean

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
	@echo 'make test                  the tests, in a few minutes; make test-all: all of them'
	@echo 'make lint                  format, lint, types'
	@echo 'make test-blas             four BLAS libraries under one NumPy (minutes; Debian, x86-64)'
	@echo 'make benchmarks            how gemmgrid itself measures and costs'
	@echo 'make clean                 remove environments and caches, never results'

setup: .venv/ready

.venv/ready: requirements/run.txt pyproject.toml
	@"$${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "gemmgrid needs Python 3.11 or newer; $${PYTHON:-python3} is not. Try: make PYTHON=python3.12" >&2; exit 1; }
	@echo 'setting up .venv (once) …'
	@"$${PYTHON:-python3}" -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' $<)"
	@.venv/bin/uv pip install --quiet --python .venv/bin/python -r $<
	@.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.venv/ready-to-test: requirements/test.txt .venv/ready
	@echo 'setting up the tests (once) …'
	@.venv/bin/uv pip install --quiet --python .venv/bin/python -r $<
	@touch $@

bench slurm: setup
	@$(GEMMGRID) make $@
	@echo "The report: $$PWD/reports/index.html"

slurm-plan report stale: setup
	@$(GEMMGRID) make $@

bundle: setup
	@$(GEMMGRID) bundle $${MACHINE:+"--machine=$$MACHINE"} $${OUT:+"--out=$$OUT"} \
		$(if $(filter-out 0 no false,$(IDENTIFY)),--identify)

unpack: setup
	@test -n "$$BUNDLE" || { echo 'which bundle? make unpack BUNDLE=gemmgrid-….zip' >&2; exit 1; }
	@$(GEMMGRID) unpack $${AS:+"--as=$$AS"} -- "$$BUNDLE"

doctor: setup
	@$(GEMMGRID) doctor

test test-all test-blas: .venv/ready-to-test
	@$(GEMMGRID) make $@

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
