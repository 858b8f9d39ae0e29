# Two commands matter: `make demo` and `make test`. Both need only Python (3.11 or newer) and make.
# PYTHON=/path/to/python3 chooses the interpreter; otherwise the first new enough one is taken.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
# Two workers suit a small machine; the tests of a file stay together, so that what they share is made once.
WORKERS ?= 2
PYTEST_ARGS ?=
# How long `make soak` goes on: kills of the server under load, and random histories of runs.
KILLS ?= 500
HISTORIES ?= 1000
# How many minutes each test of `make fuzz` goes on, and where it begins.
MINUTES ?= 10
FUZZ_SEED ?= $(shell date +%s)

.DEFAULT_GOAL := help
.PHONY: help demo test coverage soak fuzz serve pictures generate contract-diff contract-keep lint format types imports bench clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

demo: $(VENV)/.runtime ## start a server with a real agent and watch one run live, on the page and here
	@$(BIN)/livebox demo $(DEMO_ARGS)

serve: $(VENV)/.runtime ## start the server on its own embedded database
	@$(BIN)/livebox serve $(SERVE_ARGS)

test: $(VENV)/.dev node_modules/axe-core ## run every test that this machine can (PYTEST_ARGS='-k name' for some)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

coverage: $(VENV)/.dev ## the same, and how much of the code they reach, which may not fall
	@$(MAKE) --no-print-directory test PYTEST_ARGS="--cov --cov-branch --cov-report=term:skip-covered $(PYTEST_ARGS)"

soak: $(VENV)/.dev ## kill the server under load KILLS times, and play HISTORIES random histories against the model of runs
	$(BIN)/python -m pytest tests/faults/test_kill_under_load.py tests/runs/test_machine.py -rP --timeout=0 \
		--kills $(KILLS) --histories $(HISTORIES) $(PYTEST_ARGS)

fuzz: $(VENV)/.dev ## make up requests and frames for MINUTES and hold what comes back against the contract; FUZZ_SEED repeats
	$(BIN)/python -m pytest tests/contract/test_schemathesis_stateful.py tests/gateway/test_fuzz.py tests/gateway/test_fuzz_sessions.py \
		-n $(WORKERS) --dist loadfile --timeout=0 --fuzz-seconds $$(($(MINUTES) * 60)) --fuzz-seed $(FUZZ_SEED) $(PYTEST_ARGS)

pictures: $(VENV)/.dev ## take the pictures of the page in docs/images from a running demo (needs Chromium)
	$(BIN)/python -m tests.browser.screenshots

generate: $(VENV)/.dev ## make generated/ and the reference pages from the contract and the key declarations
	$(BIN)/python -m livebox.codegen

contract-diff: $(VENV)/.dev ## what has changed in the contract since BASE (a git revision, else the last release); fails where it breaks clients
	@$(BIN)/python -m tests.compatibility $(if $(BASE),--base '$(BASE)') $(DIFF_ARGS)

contract-keep: $(VENV)/.dev ## keep the contract as that of its version, for a release
	@$(BIN)/python -m tests.compatibility --keep

lint: $(VENV)/.dev ## style, SQL rules, rules and versions of the contract, links and what must not be committed
	@failed=0; for check in 'ruff format --check .' 'ruff check .' 'python -m tests.checks'; do \
		echo "$$check"; $(BIN)/$$check || failed=1; done; exit $$failed

format: $(VENV)/.dev ## let ruff put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(VENV)/.dev ## check types, strictly
	$(BIN)/mypy

imports: $(VENV)/.dev ## check that imports go one way
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.dev ## measure against pgbench, bare aiohttp and, where npm is, its peers, into docs/performance.md (QUICK=1: in a minute, to the screen)
	@! command -v npm >/dev/null || npm install --no-package-lock --no-audit --no-fund --silent || true
	$(BIN)/python -m tests.bench $(if $(QUICK),--quick) $(BENCH_ARGS)

clean: ## remove what was built and measured here; data folders stay
	rm -rf $(VENV) node_modules build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .schemathesis .import_linter_cache
	rm -f .coverage .coverage.* coverage.xml
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Livebox needs Python 3.11 or newer; found: $$(python3 --version 2>&1 || echo none)." \
		"Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Livebox needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>&1 | head -n 1)." >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment" \
		"(on Debian: apt install python3-venv)." >&2; exit 1; }

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what Livebox needs to run ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# What looks at the page for its tests, which are skipped without it: no npm is no error.
node_modules/axe-core: package.json
	@if command -v npm >/dev/null; then npm install --no-package-lock --ignore-scripts --no-audit --no-fund --silent || true; fi
	@mkdir -p $@ && touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what Livebox needs to be built and tested ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.runtime
