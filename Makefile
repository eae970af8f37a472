# The two commands are `make report` and `make test`; both set up first.
PYTHON  ?= python3
PROFILE ?= lean
VENV    ?= .venv
WORKERS ?= 2
SOAK_MINUTES ?= 10
REQUESTS ?= 10000
BIN      = $(VENV)/bin
STAMP    = $(VENV)/.ready-$(PROFILE)
export PYTHONPYCACHEPREFIX =
export PYTHONDONTWRITEBYTECODE =

.PHONY: report crossover test test-all soak lint setup lock clean

report: $(STAMP)
	$(BIN)/specswitch sweep --out reports/quickstart --resume

# Where speculation stops paying on two cores: closed batches of up to 128 requests.
crossover: $(STAMP)
	$(BIN)/specswitch sweep -f notebooks/plans/cpu-closed.yaml --out reports/crossover --resume

test: $(STAMP) lint
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist loadfile --durations=15

# Everything, the long matrices included (hours rather than minutes on two cores).
test-all: $(STAMP) lint
	$(BIN)/python -m pytest

# Thousands of random requests across the threshold, every check on: v1 and v2 share the minutes.
soak: $(STAMP)
	$(BIN)/specswitch soak --requests $(REQUESTS) --minutes $(SOAK_MINUTES) --out reports/soak

lint: $(STAMP)
	$(BIN)/ruff check lib tests
	$(BIN)/ruff format --check lib tests
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: $(STAMP)

$(STAMP): requirements/$(PROFILE).lock pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v in ((3, 11), (3, 12)) else "specswitch needs Python 3.11 or 3.12, found %d.%d: run make PYTHON=python3.11" % v)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip install -q --python $(BIN)/python --compile-bytecode --no-deps -r requirements/$(PROFILE).lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e .
	touch $@

lock: $(STAMP)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python requirements/locks.py

clean:
	rm -rf $(VENV) build dist lib/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
