# make demo   the main job on real data, from nothing
# make test   everything that must pass, from nothing
# make help   the rest

VENV ?= .venv
BIN := $(VENV)/bin
DOCS_VENV ?= .venv-docs
FUZZ_VENV ?= .venv-fuzz
# Silences an advertisement of the theme: CONTRIBUTING.md has the reasons for it and what follows it.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs
PYTHON ?= python3
export PYTHON
# On two cores one worker more, since tests often wait for an engine or a time limit; files in the order of conftest.py.
WORKERS ?= 3
BY_FILE = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SCRIPTS := .ci/run .github/actions/image/image.sh $(wildcard scripts/*.sh templates/*.sh templates/ci/*.sh)

.DEFAULT_GOAL := help
.PHONY: help docs docs-serve recording venv engine compiler imagetools cosign demo test unit gpu integration thorough lint format pins lockfiles records cipins cudatable numpytable pythontable examples sets benchmark plants fuzz crash load reproducibility pipeline wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'

venv: ## the virtual environment with pinned tools
	@scripts/venv.sh $(VENV)

engine: ## a container engine that answers (installs and starts Docker if there is none)
	@scripts/ensure-engine.sh

demo: venv ## lock, build, run twice, compare: the main job on real data
	@PATH="$(abspath $(BIN)):$$PATH" scripts/demo.sh

test: lint unit integration ## everything CI runs
	@echo "all suites passed"

unit: venv compiler ## fast tests: no network, no engine
	$(BIN)/python -m pytest tests/unit tests/golden -n 2 -q
	$(BIN)/python -m pytest tests/gpu -q -rs

gpu: ## tests on a machine with an NVIDIA GPU: needs pytest and nvidia-ml-py only
	$(PYTHON) -m pytest tests/gpu -q

compiler: ## a C compiler for the libraries that stand in for a driver (installs one if there is none)
	@scripts/ensure-compiler.sh

imagetools: ## podman, skopeo, umoci, sqfstar and ssh-keygen, which the tests need (installs what is missing)
	@scripts/ensure-image-tools.sh

cosign: ## cosign, which images are signed with (unpacks Debian's into the cache if there is none)
	@scripts/ensure-cosign.sh >/dev/null

integration: venv engine compiler imagetools cosign ## tests with the real engine, the real indexes and mirrors
	ENVBUILD_ENGINE=docker $(BIN)/python -m pytest tests/integration -m "not thorough" $(BY_FILE) -q --durations=10
	ENVBUILD_ENGINE=local $(BIN)/python -m pytest tests/integration -m both_engines $(BY_FILE) -q

thorough: venv engine compiler imagetools ## more combinations of frameworks and causes than integration has
	ENVBUILD_ENGINE=docker $(BIN)/python -m pytest tests/integration -m thorough $(BY_FILE) -q

lint: venv ## ruff, mypy --strict, shellcheck; zizmor and actionlint for the workflows
	@scripts/large-files.sh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/shellcheck --external-sources $(SCRIPTS)
	$(BIN)/zizmor --offline --quiet .github templates/ci/github.yml
	@PATH="$(abspath $(BIN)):$$PATH" scripts/actionlint.sh

docs: ## the documentation site in build/site; a broken link or anchor is an error
	@scripts/venv.sh $(DOCS_VENV) requirements-docs.txt
	@echo "docs      building the site, checking links and anchors"
	@$(MKDOCS) build --quiet --strict
	@echo "docs      build/site/index.html"

recording: venv engine ## the recording on the documentation's first page: the main job, run here, drawn as SVG
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m tools.recording docs/assets

docs-serve: ## the documentation site on loopback, rebuilt at every change
	@scripts/venv.sh $(DOCS_VENV) requirements-docs.txt
	@$(MKDOCS) serve

format: venv ## rewrite the code as ruff wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pins: venv ## move the pins of the tools for development and documentation, and of pipelines
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-annotate --no-header \
	    --no-emit-index-url --no-emit-find-links --group dev --python-version 3.10 pyproject.toml -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-annotate --no-header \
	    --no-emit-index-url --no-emit-find-links --group docs --python-version 3.10 -o requirements-docs.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-annotate --no-header \
	    --no-emit-index-url --no-emit-find-links --group fuzz --python-version 3.10 pyproject.toml -o requirements-fuzz.txt
	@$(MAKE) --no-print-directory cipins
	$(BIN)/python -m tools.ci_images

cipins: venv ## what pipelines install: envbuild's dependencies and its builder, as pinned in requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url \
	    --no-emit-find-links -c requirements-dev.txt --python-version 3.10 pyproject.toml -o templates/ci/requirements.txt
	echo hatchling | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url \
	    --no-emit-find-links -c requirements-dev.txt --python-version 3.10 - -o .github/actions/image/requirements.txt

lockfiles: venv ## lock the reference specs again
	@PATH="$(abspath $(BIN)):$$PATH" scripts/lockfiles.sh

records: venv ## build the reference images whose digests are not recorded (NAMES="…"; GB), write the table in lockfiles/README.md
	@$(BIN)/python scripts/image-records.py $(NAMES)

cudatable: venv ## derive the table of CUDA wheels from the package index, show what changed
	env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL -u UV_FIND_LINKS -u UV_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
	    $(BIN)/python -m tools.cuda_wheels

numpytable: venv ## derive the table of releases compiled for NumPy 1 from the package index, show what changed
	env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL -u UV_FIND_LINKS -u UV_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
	    $(BIN)/python -m tools.numpy_abi

pythontable: venv ## the table of standalone Pythons from the list of uv (DIGESTS=download-metadata.json of uv's source), show what changed
	$(BIN)/python -m tools.python_builds $(if $(DIGESTS),--digests "$(DIGESTS)")

examples: venv engine ## public programs, unmodified: some five times under the hook, some by verify (CHECKOUTS=FOLDER, or git fetches them)
	@$(BIN)/python scripts/public-examples.py $(if $(CHECKOUTS),--checkouts "$(CHECKOUTS)")
	@$(BIN)/python -m tests.public

sets: venv ## real sets of packages: locked and compared with uv; SETS=full builds and imports those up to LARGEST=300 MB (NAMES="…")
	@$(BIN)/python -m tests.sets $(if $(filter full,$(SETS)),,--lock-only) $(if $(LARGEST),--largest $(LARGEST)) $(NAMES)

benchmark: venv engine ## the figures in docs/explanation/benchmarks.md (takes a while; ONLY="image peers" measures some)
	$(BIN)/python -m benchmarks $(ONLY)

plants: venv engine ## 2,493 programs with and without planted differences: what verify makes of each (ONLY="FILE…")
	$(BIN)/python -m tests.plants $(or $(ONLY),$(wildcard tests/plants/*.toml))

fuzz: ## every parser of foreign bytes under libFuzzer, 10^6 inputs (COUNT=…, SEED=…, ONLY="wheel lock"; needs Python 3.11 to 3.13)
	@scripts/venv.sh $(FUZZ_VENV) requirements-fuzz.txt
	$(FUZZ_VENV)/bin/python -m tests.fuzz $(ONLY) --count $(or $(COUNT),1100000) --seed $(or $(SEED),1)

crash: venv engine imagetools ## faults on purpose: commands killed at random (COUNT=300, SEED=1), interrupted, full disks, power cuts
	$(BIN)/python -m tests.campaign kills --seed $(or $(SEED),1) --count $(or $(COUNT),300)
	$(BIN)/python -m tests.campaign interrupts --seed $(or $(SEED),1) --count 64
	$(BIN)/python -m tests.campaign disk --seed $(or $(SEED),1) --count 100
	$(BIN)/python -m tests.campaign power --seed $(or $(SEED),1) --count 200

load: venv engine imagetools ## 50 commands at once on one store, 200 images pushed to one registry
	$(BIN)/python -m tests.campaign load --count 50

reproducibility: venv engine compiler ## one lock built on every engine in every kind of surroundings: one digest, as a table
	@$(BIN)/python -m tests.reproducibility

pipeline: venv engine compiler ## the image pipeline (LOCKS="NAME…", ALL=1, PIPELINE_REGISTRY=…): built twice, compared, published
	@scripts/pipeline.sh run $(if $(ALL),--all) $(LOCKS)

wheel: venv ## envbuild's own wheel and source archive, built twice and compared, in dist/
	@scripts/wheel.sh

clean: ## remove what make made here (not the shared store)
	rm -rf $(VENV) $(DOCS_VENV) $(FUZZ_VENV) build .mypy_cache .ruff_cache .pytest_cache
