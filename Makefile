# Every target makes and fills its own virtual environment first; the second time that is instant.
# PYTHON=python3.12 chooses the interpreter, VENV=folder the place. uv installs, where it is there.

VENV ?= .venv
BIN := $(VENV)/bin
TESTS ?=
# A number from 0 to 9: the tenth of the tests outside `make test` that runs too (tests/selection.py).
TENTH ?=
# Other libraries, for the benchmarks: an environment for each, from a list of exact versions.
PEERS := $(patsubst benchmarks/environments/%.txt,.bench/%/.made,$(wildcard benchmarks/environments/*.txt))
# Published scripts that are no package: where they are, and the version that is measured.
SCRIPTS ?= https://github.com/thangbui/streaming_sparse_gp
SCRIPTS_AT := d95081b8a67316981088172124bc44e3c2235e49
# Nearly all the time of `make test` is compiling programs that run once. The second flag halves it,
# and every core is busy without the compiler's threads. jaxlib stops at flags it does not know.
PLAIN := --xla_backend_optimization_level=0
HASTE := $(PLAIN) --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1
KNOWN = XLA_FLAGS="$(HASTE)" $(BIN)/python -c "import jax; jax.devices()" >/dev/null 2>&1
# Compiled programs are kept, so that workers and later runs share them.
PROGRAMS ?= $(VENV)/programs
KEPT = JAX_COMPILATION_CACHE_DIR="$$(mkdir -p "$(PROGRAMS)" && cd "$(PROGRAMS)" && pwd)" \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
# A file's tests stay in one worker, which has traced and loaded their programs already.
PYTEST = $(KEPT) $(BIN)/python -m pytest -n auto --dist loadfile -q
# What `make test-times` measures (test or test-all), and where it writes.
SUITE ?= test
TIMES := .times

# Where compiled Python files are not kept, each process that a test starts compiles all imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-times lint check format docs examples bench bench-environments clean

help:
	@echo "make demo       the main job on real data: fit, compare, predict, report (under 2 minutes)"
	@echo "make test       the tests: all but slow ones, and a share of large grids"
	@echo "make test-all   every test; TENTH=0 to 9: a tenth of those that make test leaves out"
	@echo "make test-times the tests, and a table of the seconds that each takes"
	@echo "make lint       lint, format and types, of the programs in the documentation too"
	@echo "make check      make lint, then make test"
	@echo "make format     put the code in the house format"
	@echo "make docs       the documentation site, into docs/_build/html"
	@echo "make examples   run all examples, and keep what they print and draw for the site"
	@echo "make bench      the benchmark tables, other libraries beside this one"
	@echo "make clean      remove everything that was built"

demo: $(VENV)/.demo
	$(BIN)/cavity demo

# The compiler's flags, unless XLA_FLAGS is set, for what runs tests.
FLAGS = flags="$(PLAIN)"; if $(KNOWN); then flags="$(HASTE)"; fi; \
	XLA_FLAGS="$${XLA_FLAGS-$$flags}"
ONE_TENTH = $(if $(TENTH),--tenth $(TENTH))

# Run-time shape checks cost a fifth of the time, and what they see `make test-all` sees.
test: $(VENV)/.dev
	@$(FLAGS) CAVITY_TYPECHECK="$${CAVITY_TYPECHECK-0}" $(PYTEST) --sample $(ONE_TENTH) $(TESTS)

test-all: $(VENV)/.dev
	@$(FLAGS) $(PYTEST) $(ONE_TENTH) $(TESTS)

# With an empty folder of compiled programs: SUITE=test-all for all tests, TESTS for some.
test-times: $(VENV)/.dev
	rm -rf $(TIMES)
	-CAVITY_TEST_TIMES=$(TIMES) $(MAKE) $(SUITE) PROGRAMS=$(TIMES)/programs
	$(BIN)/python -m tests.compile_times $(TIMES)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python scripts/check_programs.py

check: lint test

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@if command -v node >/dev/null; then node scripts/search.js docs/_build/html docs/search.csv; \
		else echo "no node here: what a search of the site finds was not looked at"; fi
	@echo "docs/_build/html/index.html"

examples: $(VENV)/.dev
	$(BIN)/python -m scripts.examples
	$(BIN)/python -m scripts.names

bench: $(VENV)/.dev
	-@$(MAKE) --keep-going bench-environments
	$(BIN)/python benchmarks/run.py

bench-environments: $(PEERS) .bench/streaming_sparse_gp/.made-$(SCRIPTS_AT)

clean:
	rm -rf $(VENV) .bench .uv build dist docs/_build $(TIMES) .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.bench/%/.made: benchmarks/environments/%.txt
	@echo "installing $* into .bench/$*"
	@PYTHON="$(PYTHON)" scripts/venv.sh .bench/$* --requirement $<
	@touch $@

.bench/streaming_sparse_gp/.made-$(SCRIPTS_AT):
	@echo "fetching the scripts of $(SCRIPTS)"
	@rm -rf $(@D)
	@git clone --quiet $(SCRIPTS) $(@D)
	@git -C $(@D) checkout --quiet $(SCRIPTS_AT)
	@touch $@

# A stamp says which extras are installed; it ages when pyproject.toml changes.

$(VENV)/.demo: pyproject.toml
	@echo "installing cavity into $(VENV)"
	@PYTHON="$(PYTHON)" scripts/venv.sh $(VENV) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml
	@echo "installing cavity and its development tools into $(VENV)"
	@PYTHON="$(PYTHON)" scripts/venv.sh $(VENV) --editable ".[dev,mcmc]"
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml
	@echo "installing cavity and its documentation tools into $(VENV)"
	@PYTHON="$(PYTHON)" scripts/venv.sh $(VENV) --editable ".[docs]"
	@touch $@ $(VENV)/.demo
