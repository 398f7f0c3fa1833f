# Every target sets itself up in .venv; all you need is Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# What one program of a run has compiled, the next one loads: the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: conform conform-dsh races-100 findings kills test lint interop bench soak explore-deep explore-pins logs-deep tla tla-deep tla-record documents clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

conform: $(READY)      ## the main job: the suite on the reference harness, and the bundled real logs
	$(BIN)/loopspec conform --adapter python-reference
	$(BIN)/loopspec check tests/logs/upstream-rc8 --expect tests/logs/upstream-rc8/expected.yaml

test: $(READY) lint    ## lint, types and the whole test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)        ## every figure in one run; ONLY="loop explore" picks some
	$(BIN)/python -m benchmarks $(ONLY)

tla: $(READY)          ## check the TLA+ models, quick bounds; MODEL=tla/instances/X.cfg checks that one
	$(BIN)/python -m loopconform.tla.run $(or $(MODEL),--tier quick)

tla-deep: $(READY)     ## every instance of the TLA+ models, and every pinned graph equality; goes on behind a failure
	failed=0; $(BIN)/python -m loopconform.tla.run --tier all || failed=1; \
	for machine in inbox driver scheduler creation tape retry request loop; do \
	  $(BIN)/loopspec equal $$machine --bound ci --bound deep || failed=1; done; exit $$failed

tla-record: $(READY)   ## pin the counts of the quick TLA+ instances and comparisons anew, and write the tables
	$(BIN)/python -m loopconform.tla.run --record --tier quick
	for machine in inbox driver scheduler creation tape retry request loop; do \
	  $(BIN)/loopspec equal $$machine --bound ci --record || exit $$?; done
	$(BIN)/python -m loopconform.tla.documents

soak: $(READY)         ## 10,000 agents created, driven and disposed on each event loop; CYCLES=500 for fewer: half an hour
	nice -n 10 $(BIN)/python -m tests.creation.soak $(or $(CYCLES),10000)

explore-deep: $(READY) ## the deep bounds: minutes and more than a gigabyte each
	$(BIN)/loopspec explore driver --bound deep
	TAPE_BOUND=full $(BIN)/python -m pytest tests/tape -n0

explore-pins: $(READY) ## the pinned bounds that are too long for every test run: minutes each
	LOOPSPEC_LONG=1 $(BIN)/python -m pytest tests/spec/test_driver_pins.py tests/spec/test_creation_symmetry.py \
	  tests/tla/test_models.py::test_the_vocabulary_is_that_of_the_machines -n 2 --dist worksteal --timeout 1200

logs-deep: $(READY)    ## 2,000 generated logs, and as many with one fault: docs/SEEDED-FAULTS.md; half an hour of one core
	$(BIN)/python -m tests.logs.deep

documents: $(READY)    ## write the generated documents anew
	$(BIN)/python -m loopconform.clauses
	$(BIN)/python -m loopconform.crash_table
	$(BIN)/python -m loopconform.exit_codes

DSH := conformance/adapters/node-dsh

conform-dsh: $(READY)  ## the suite on the published npm packages, installed outside of the checkout
	$(DSH)/install.sh
	$(BIN)/loopspec conform -j 2 --adapter $(DSH) --profile dsh-0.1
	$(BIN)/loopspec conform -j 2 --adapter "$(DSH)/run --jitter 1" --profile dsh-0.1
	$(BIN)/loopspec conform -j 2 --adapter $(DSH) --profile seed --no-shrink --expected-failures $(DSH)/expected-seed.yaml

REPEAT := $(BIN)/loopspec conform repeat --times $(or $(TIMES),100) -j $(or $(JOBS),1) --page conformance/REPEATED.md

races-100: $(READY)    ## the races 100 times, judged each time: conformance/REPEATED.md. ADAPTER=node-dsh or python-reference: only there
	for adapter in $(or $(ADAPTER),python-reference node-dsh); do case $$adapter in \
	  node-dsh) $(DSH)/install.sh && $(REPEAT) --adapter "$(DSH)/run --jitter 1" --profile dsh-0.1;; \
	  *) $(REPEAT) --adapter $$adapter && $(REPEAT) --adapter $$adapter --backend trio;; \
	esac || exit $$?; done

findings: $(READY)     ## write anew what the published packages do that the default profile does not allow
	$(DSH)/install.sh
	$(BIN)/python -m loopconform.divergences --adapter $(DSH) --expected $(DSH)/expected-seed.yaml --out conformance/FINDINGS.md conformance/cases

kills: $(READY)         ## look for cases that kill the wrong loops, and write the kill matrix anew: an hour; ONLY="driver/*" picks some
	$(BIN)/python -m loopconform.mutants search $(ONLY)

interop: $(READY)      ## exchange sessions with the published npm packages (installed outside of the checkout)
	$(DSH)/install.sh
	$(BIN)/python -m pytest tests/interop -n0

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
