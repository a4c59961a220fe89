# Targets for people and build machines. Plain `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup dev run test test-slow test-end-to-end test-web test-faults test-image test-all sanitize lint types check parity bench peers gate translationpeers whisperpeers interpreterpeers load faults agents cluster cudasources docs fake-checkpoints wheel clean
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
REFERENCE := kokoro==0.9.4 chatterbox-tts==0.1.7 s3tokenizer==0.3.0 diffusers==0.29.0 conformer==0.3.2 \
	resemble-perth==1.0.1 openai-whisper==20250625

# The first interpreter that runs and is new enough; `make setup PYTHON=/path/to/python` overrides it. Only targets that
# create an environment search for it, once.
ifeq ($(origin PYTHON),undefined)
PYTHON = $(eval PYTHON := $$(shell for p in python3.12 python3.11 python3; do \
	$$$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$$$p && break; done))$(PYTHON)
endif
PIP_FLAGS := --quiet --disable-pip-version-check
# Tests with these marks have targets, and most of them environments, of their own.
USUAL := not parity and not faults and not cluster
PYTEST := $(PY) -m pytest -m "$(USUAL)"
# Processes that share the test files, in the order of the files.
WORKERS := 2
SHARED := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

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

test: dev ## run the quick tests: app/, models/, training/ (ARGS="tests/app/audio -x" narrows them, ARGS="-n 0" takes one process)
	$(PY) -m pytest -m "$(USUAL) and not slow" $(SHARED) $(ARGS)

test-slow: dev ## ... and what is slow there: emulated kernels, statistics, processes with real models
	$(PY) -m pytest -m "$(USUAL) and slow" $(SHARED) tests/app tests/models $(ARGS)

test-end-to-end: dev ## real servers, the SDKs of others, load scripts, every example of the documentation
	$(PYTEST) $(SHARED) tests/end_to_end tests/loadtest tests/test_readme.py $(ARGS)

test-web: dev ## the pages in Chromium
	$(PYTEST) $(SHARED) tests/web $(ARGS)

test-faults: dev ## the short form of the faults: broken and hostile clients, signals, recordings
	$(PYTEST) $(SHARED) tests/faults $(ARGS)

test-image: dev ## the image of Dockerfile: built without a registry, and run (root, buildah, debootstrap)
	$(PYTEST) tests/image $(ARGS)

test-all: test test-slow test-end-to-end test-web test-faults test-image ## all of these

sanitize: dev ## the native kernels without Python: under sanitizers, and on arm64 (part of test-slow)
	$(PYTEST) tests/models/native/test_standalone.py $(ARGS)

lint: dev ## ruff and import rules
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports

types: dev ## mypy, strict
	$(PY) -m mypy

check: lint types ## lint and types

parity: $(PARITY)/.parity ## compare with the PyTorch reference (own environment)
	$(PARITY_PY) -m pytest -m parity $(SHARED) tests/models tests/training tests/app/audio tests/loadtest $(ARGS)

bench: setup ## time the model in this process, stage by stage
	@$(VENV)/bin/nightingale bench $(ARGS)

peers: $(PARITY)/.parity ## Kokoro-82M beside PyTorch and ONNX Runtime, same weights, same run
	$(PARITY_PY) loadtest/kokoro_peers.py --onnx $(ARGS)

gate: $(PARITY)/.parity ## compare the ratios to the peers' times with the kept ones (ARGS=--keep writes them)
	$(PARITY_PY) loadtest/gate.py $(ARGS)

translationpeers: $(PARITY)/.parity ## NLLB-600M beside PyTorch and CTranslate2, same weights, same run
	$(PARITY_PY) loadtest/nllb_peers.py $(ARGS)

whisperpeers: $(PARITY)/.parity ## Whisper beside CTranslate2 and openai-whisper, same weights, same run
	$(PARITY_PY) loadtest/whisper_peers.py $(ARGS)

interpreterpeers: $(PARITY)/.parity ## the interpreter beside faster-whisper, CTranslate2 and Kokoro in PyTorch, same recording
	$(PARITY_PY) loadtest/interpreter_peers.py $(ARGS)

load: dev ## put load on a running server (HOST, PORT, ARGS="--clients 8")
	@$(PY) loadtest/load.py --url http://$(or $(HOST),127.0.0.1):$(or $(PORT),8000) $(ARGS)

faults: dev ## the long form of the faults: thousands of bad clients, kills, requests made from the API's description
	$(PY) -m pytest tests/faults $(ARGS)

agents: setup $(PIPECAT)/.agents $(LIVEKIT)/.agents ## pipecat's and livekit's services against a real server (own environments)
	SERVER_PYTHON=$(PY) $(PIPECAT)/bin/python -m pytest tests/agents/test_pipecat.py tests/agents/test_pipecat_stt.py $(ARGS)
	SERVER_PYTHON=$(PY) $(LIVEKIT)/bin/python -m pytest tests/agents/test_livekit.py tests/agents/test_livekit_stt.py $(ARGS)

cudasources: dev $(NVRTC)/.nvrtc ## compile every CUDA kernel by NVIDIA's compiler, which needs no GPU
	NVRTC_FOLDER=$(NVRTC) $(PY) -m pytest tests/models/test_cuda_sources.py -n $(WORKERS) $(ARGS)

cluster: $(CLUSTER)/.cluster ## two replicas under Ray on this machine, one of them killed (own environment)
	$(CLUSTER_PY) -m pytest -m cluster tests/cluster $(ARGS)

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

$(PARITY)/.parity: configs/lock/dev.txt configs/lock/parity.txt pyproject.toml
	$(call create_venv,$(PARITY))
	@echo "Installing the reference implementation"
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --require-hashes -r configs/lock/dev.txt
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) -r configs/lock/parity.txt
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --no-deps $(REFERENCE)
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --no-deps --target $(PARITY)/$(APART) --upgrade torchaudio==2.11.0
	@$(PARITY_PY) -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
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
