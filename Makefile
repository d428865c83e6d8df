# Every target works alone on a fresh clone: it makes .venv, installs what is locked, and runs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Tests run side by side and their frames are small: handing each of them to a pool of threads takes longer than the work.
ONE_THREAD := POLARS_MAX_THREADS=1

S3     := .venv-s3

.DEFAULT_GOAL := help
.PHONY: help install demo test test-recovery lint format bench screenshots browser servers lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with Riverrun, all extras and the tools for development

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Riverrun needs Python 3.11 or newer; name one with: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@echo "installing into $(VENV) (once; a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "preparing Spark, so that it starts in half the time (once; half a minute)"
	@$(BIN)/python -m riverrun.spark.trial >/dev/null 2>&1 || echo "Spark does not run here; see: $(BIN)/riverrun doctor --spark"
	@touch $@

demo: $(STAMP) ## a web shop with its dashboard; b kills the processing, Ctrl-C ends it
	@$(BIN)/riverrun demo

# Without it the tests of the dashboard in a browser are left out, and say so.
browser: ## Chromium for the tests of the dashboard, where this user may install packages
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
	  { echo "installing chromium (once)"; export DEBIAN_FRONTEND=noninteractive; (apt-get install -qq -y chromium || \
	    { apt-get update -qq && apt-get install -qq -y chromium; }) >/dev/null 2>&1 || echo "chromium could not be installed"; }

# moto, an S3 on this machine, wants an older python-dateutil than Riverrun is tested with: it is a server beside it.
$(S3)/.installed: tests/s3-server.lock
	@echo "installing moto into $(S3) (once)"
	@{ test -x $(S3)/bin/python || $(PYTHON) -m venv $(S3); } && \
	  $(S3)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/s3-server.lock && \
	  touch $@ || { rm -rf $(S3); echo "moto could not be installed"; }

# Without one the tests of views in Redis or in buckets, of captures of MariaDB, or of Kafka are left out, and say so.
servers: $(S3)/.installed ## Redis, MariaDB, Kafka and S3 for the tests, where this user may install packages
	@for server in redis-server mariadb-server kcat; do \
	  dpkg-query -W -f '$${Status}' $$server 2>/dev/null | grep -q 'ok installed' || test "$$(id -u)" != 0 || \
	  ! command -v apt-get >/dev/null || \
	  { echo "installing $$server (once)"; export DEBIAN_FRONTEND=noninteractive; (apt-get install -qq -y --no-install-recommends $$server || \
	    { apt-get update -qq && apt-get install -qq -y --no-install-recommends $$server; }) >/dev/null 2>&1 || echo "$$server could not be installed"; }; \
	done
	@$(PYTHON) tests/kafka_jars.py

test: $(STAMP) browser servers ## all tests but the slow ones
	@EXAMPLES=0.5 $(ONE_THREAD) $(BIN)/python -m pytest -n 3 --dist loadgroup --durations 12 --durations-min 8

test-recovery: $(STAMP) servers ## kill real processes at every step and compare
	@$(ONE_THREAD) $(BIN)/python -m pytest -vv -n 2 --dist loadgroup -m 'recovery or slow' tests
	@EXAMPLES=4 $(ONE_THREAD) $(BIN)/python -m pytest -n 2 -m 'hypothesis and not spark' --hypothesis-profile search tests

lint: $(STAMP) ## ruff and mypy, as CI runs them
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP) ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP) ## measure this machine; ratios against plain files in the same run
	@$(BIN)/python -m bench

screenshots: $(STAMP) browser ## pictures of the dashboard, into docs/images (needs Chromium; three minutes)
	@$(BIN)/python docs/screenshots.py

lock: $(STAMP) ## choose newest versions and write requirements.lock
	@$(BIN)/uv pip compile --quiet --upgrade --universal --all-extras --group dev --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links tests/s3-server.in -o tests/s3-server.lock

clean: ## remove .venv and caches
	@rm -rf $(VENV) $(S3) .pytest_cache .mypy_cache .ruff_cache .hypothesis
