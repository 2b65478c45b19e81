# The two commands are `make verify` and `make test`; both start from nothing but Python and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Compiled programs are kept between sessions: most of a test's time is compilation.
# One BLAS thread: two of them beside XLA's wait for each other on a small machine.
SETTINGS := OPENBLAS_NUM_THREADS=1 JAX_COMPILATION_CACHE_DIR="$(CURDIR)/.cache/jax" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0

# Two processes, a file in one of them: tests of a file share what they compile.
TOGETHER := -n 2 --dist loadfile

# Of `make fuzz`: how long, and one case again.
SECONDS := 60
SEED :=

.PHONY: help verify verify-all test test-torch fuzz bench docs readme lint fix clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

verify: .venv/installed  ## install, try every theorem that is not slow, draw the main figures, write out/report.html
	$(SETTINGS) $(BIN)/gradbias report --fresh --out out/report.html

verify-all: .venv/installed  ## every theorem, slow ones too, and the power of each, into out/ and its report
	$(SETTINGS) $(BIN)/gradbias verify --all --mutate --json out/verify.json --out out/power.json
	$(SETTINGS) $(BIN)/gradbias report --out out/report.html
	$(SETTINGS) $(BIN)/python docs/claims.py

test: lint  ## lint, types and the quick tests, then a smoke set with jax's global x64 flag on
	$(SETTINGS) JAX_ENABLE_X64=0 $(BIN)/pytest -q $(TOGETHER) -m "not slow"
	$(SETTINGS) JAX_ENABLE_X64=1 $(BIN)/pytest -q $(TOGETHER) -m smoke

test-torch: .venv/installed-dev .venv/installed-bench  ## the tests of gradbias.torch; installs PyTorch for itself
	$(BIN)/basedpyright --project tests/torch_models
	$(SETTINGS) $(BIN)/pytest -q $(TOGETHER) -m "not slow" tests/torch_models

fuzz: .venv/installed-dev  ## random setups against NumPy and damaged stores, SECONDS=300 or SEED=descent:17
	$(SETTINGS) JAX_PLATFORMS=cpu PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(FUZZ)

bench: .venv/installed-bench  ## time it against the same loops in PyTorch, write out/bench.json
	$(SETTINGS) $(BIN)/python -m benchmarks --out out $(BENCH)

docs: .venv/installed-docs  ## run the pages' code, then build them into docs/build, with the main figures
	$(SETTINGS) $(BIN)/gradbias figures --out out/figures
	$(SETTINGS) $(BIN)/python docs/outputs.py
	$(SETTINGS) $(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/build

readme: verify-all bench  ## verify-all and bench, then put their numbers and the pictures into README.md
	$(SETTINGS) $(BIN)/python docs/readme_numbers.py

lint: .venv/installed-dev  ## lint and types alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

fix: .venv/installed-dev  ## format and repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove everything that was made here
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis dist out docs/made docs/build
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: the environment is made once and brought up to date when pyproject.toml changes.
.venv/installed: pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "gradbias needs Python 3.11 or newer; say which one: make PYTHON=/path/to/python" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# PyTorch is what we compare with; nothing else here needs it.
.venv/installed-bench: .venv/installed
	$(BIN)/python -m pip install --quiet torch==2.13.0
	touch $@

.venv/installed-docs: .venv/installed
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --group dev
	touch $@
