# The project's commands. They fetch and build their tools on first use, into the user's cache folder.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/inference-operator
UV_VERSION := 0.13.9
UV := $(CACHE)/uv-$(UV_VERSION)/bin/uv
RUN := $(UV) run --frozen
# Python's bytecode is kept, whatever the environment says: tests start hundreds of processes, which import for a second.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(UV):
	@echo "uv $(UV_VERSION): into $(CACHE)"
	@python3 -m venv $(CACHE)/uv-$(UV_VERSION) \
	  || { echo "error: python3 with its module venv is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(CACHE)/uv-$(UV_VERSION)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.PHONY: demo
demo: $(UV) ## A cluster, the operator, and a real vLLM that answers through its load balancer (root, or CLUSTER=kind)
	@$(RUN) python -m e2e.deploy.demo up --cluster=$(or $(CLUSTER),local)

.PHONY: demo-env
demo-env: $(UV) ## Print what a shell needs to look into the demo's cluster
	@$(RUN) python -m e2e.localkube env --name demo

.PHONY: demo-down
demo-down: $(UV) ## End the demo's cluster
	@$(RUN) python -m e2e.deploy.demo down

.PHONY: install
install: $(UV) ## Install the operator on stock images, without a build: your kubeconfig, kubectl and helm (HELM_ARGS=...)
	@UV=$(UV) PYTHONPATH=operator $(UV) run --no-project --python '>=3.11' python -m e2e.deploy.install \
	  $(if $(NAMESPACE),--namespace=$(NAMESPACE)) $(HELM_ARGS)

.PHONY: push
push: $(UV) ## Push the operator's and the router's image, for amd64 and arm64, and the charts to REGISTRY
	@$(RUN) python -m e2e.deploy.push $(or $(REGISTRY),$(error name the registry: make push REGISTRY=registry.example)) \
	  $(if $(BASES),--bases=$(BASES))

.PHONY: release
release: $(UV) ## Push to REGISTRY with bills of materials and signatures of KEY
	@$(RUN) python -m e2e.deploy.release $(or $(REGISTRY),$(error name the registry: make release REGISTRY=registry.example KEY=cosign.key)) \
	  --key $(or $(KEY),$(error name the key: make release REGISTRY=registry.example KEY=cosign.key)) \
	  $(if $(BASES),--bases=$(BASES)) $(if $(TAG),--tag=$(TAG)) $(if $(OUT),--out=$(OUT)) $(if $(URL),--url=$(URL))

# Tests of these folders need commands that are built or fetched: an API server, Helm, an environment for the wheel.
BUILT := apiserver chart cluster security wheel
# Every command reports the ten slowest tests. With --record=NAME it says what got slower since the runs in .reports/NAME.
PYTEST := $(RUN) python -m pytest -q -p e2e.runs.durations_plugin --durations=10 --durations-min=0.5

.PHONY: unit
unit: $(UV) ## Tests that need nothing but Python (aim on 2 cores: 150 s)
	@$(PYTEST) --record=unit -m "not full" -n 3 --dist worksteal $(BUILT:%=--ignore=tests/%)

.PHONY: quick
quick: $(UV) ## Tests of what changed since the merge base with main (or BASE=...), in at most 45 s
	@$(RUN) python -m tests.quick $(if $(BASE),--base=$(BASE)) $(BUILT:%=--built=tests/%)

# Three of the first: each has a control plane of its own, which its tests mostly wait for.
.PHONY: test
test: check ## Everything that needs no root: linters, pure tests, a real API server
	@$(RUN) python -m e2e.runs.two_processes --record=built -m "not full" -n 3 --dist worksteal $(BUILT:%=tests/%) \
	  -- --record=pure -m "not full" -n 2 --dist worksteal $(BUILT:%=--ignore=tests/%)

.PHONY: e2e
e2e: $(UV) ## Real pods, real HAProxy, real vLLM (root); with CLUSTER=kind those that need nothing of the node
	@$(if $(filter kind,$(CLUSTER)),$(PYTEST) -m "not full" --cluster-provider=kind e2e,$(RUN) python -m e2e.runs.end_to_end --record -m "not full")

.PHONY: e2e-full
e2e-full: $(UV) ## The heavier suites too (root)
	@$(RUN) python -m e2e.runs.end_to_end
	@$(PYTEST) -m "not full" --ip-family=IPv6 e2e/test_answers.py e2e/test_watchdog.py
	@$(PYTEST) -m "not full" --ip-family=DualStack e2e/test_answers.py e2e/test_watchdog.py e2e/test_dual_stack.py
	@$(PYTEST) -m full -s tests
	@seed=$$RANDOM; echo "the pure tests in the order of --random-order-seed=$$seed"; \
	  $(PYTEST) -m "not full" -n 2 --random-order-seed=$$seed $(BUILT:%=--ignore=tests/%)
	@$(PYTEST) -m hypothesis --hypothesis-profile=many tests

.PHONY: check
check: $(UV) ## Linters, types, layers, rules of layout
	@$(RUN) ruff check --quiet
	@$(RUN) ruff format --quiet --check
	@$(RUN) mypy --no-error-summary
	@$(RUN) lint-imports --no-logo > /dev/null || $(RUN) lint-imports --no-logo
	@$(RUN) python -m tests.layout

.PHONY: crd
crd: $(UV) ## Generate the CRD, the admission policy, the reference pages and the plain manifests from the code
	@$(RUN) infd crd > crds/inferencedeployments.yaml
	@$(RUN) infd crd --json-schema > crds/inferencedeployment.schema.json
	@cp crds/inferencedeployments.yaml charts/inference-operator/files/crd.yaml
	@cp crds/inferencedeployments.yaml charts/inference-operator-crds/files/crd.yaml
	@cp operator/inference_operator/jobs/install_program.sh charts/inference-operator/files/install-program.sh
	@$(RUN) infd policy > charts/inference-operator/files/policy.yaml
	@cp operator/inference_operator/admission/operator-policy.yaml charts/inference-operator/files/operator-policy.yaml
	@$(RUN) infd policy --owner --namespace=OPERATOR_NAMESPACE --name=OPERATOR_NAME \
	  > charts/inference-operator/files/owner-policy.yaml
	@$(RUN) python -m generators.pages
	@$(RUN) python -m tests.gitops.recorded
	@$(RUN) python -m e2e.deploy.manifests

.PHONY: archives
archives: $(UV) ## Archives of infd with its libraries, for Linux and macOS, in OUT (dist); PLATFORM=linux-amd64 for one
	@$(RUN) python -m e2e.deploy.archives --out=$(or $(OUT),dist) $(if $(PLATFORM),--platform=$(PLATFORM))

.PHONY: site
site: $(UV) ## The site of the documentation, in OUT/docs/site; a link that leads nowhere is an error
	@$(RUN) python -m generators.site --out $(or $(OUT),dist)/docs $(if $(URL),--url $(URL))

.PHONY: run
run: $(UV) ## Run the operator here, with your kubeconfig
	@INFERENCE_OPERATOR_LOG_FORMAT=text \
	  INFERENCE_OPERATOR_LEASE_NAMESPACE=$${INFERENCE_OPERATOR_LEASE_NAMESPACE:-default} $(RUN) inference-operator

.PHONY: clean
clean: ## Remove what was built here (the cache folder stays)
	@rm -rf .venv dist .reports .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
