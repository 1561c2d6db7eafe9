# The targets are explained by `make help`, and in CONTRIBUTING.md.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CLUSTER ?= node
CACHE := $(or $(SWITCHYARD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/switchyard)
# Programs built from pinned modules: kubectl, helm, kube-apiserver, etcd, …
export KUBEBUILDER_ASSETS ?= $(CACHE)/bin/current
export SWITCHYARD_CLUSTER := $(CLUSTER)

# Packages with tests that need neither Kubernetes nor Envoy: the inner loop.
UNIT := ./eventbus/event/... ./eventbus/memory/... ./eventbus/publisher/... \
	./eventbus/archive/... ./eventbus/audit/... ./routeserver/bisect/... \
	./routeserver/table/... ./routeserver/view/... ./xds/translate/... ./xds/routingkey/... \
	./sidecars/inject/... ./protos/... ./tests/arch/... ./tests/replay/...
# The same in each group: go test caches the results of one timeout for no other.
TIMEOUT := -timeout 30m
# Programs and tools in modules of their own.
MODULES := tools/cluster tools/gen tools/image tests/issuer tests/browser/driver

# The flags with which images are built: what one compiles the other finds done.
GO := CGO_ENABLED=0 GOFLAGS=-trimpath go

say = @printf '\n== %s\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: preflight ## one request, forked, on a real cluster (CLUSTER=kind uses Docker and kind)
	@$(GO) build -o $(CACHE)/tools/demo ./tools/demo/cmd/demo
	@$(CACHE)/tools/demo --cluster $(CLUSTER)

.PHONY: demo-resource
demo-resource: preflight ## a sandbox with a store of its own, made and removed by the steps of a resource plugin, on a real cluster
	@$(GO) build -o $(CACHE)/tools/demo-resource ./tools/demo/cmd/demo-resource
	@$(CACHE)/tools/demo-resource --cluster $(CLUSTER)

.PHONY: demo-local
demo-local: preflight ## a service on a workstation: connected, stopped, unplugged, its proxy deleted, on a real cluster
	@$(GO) build -o $(CACHE)/tools/demo-local ./tools/demo/cmd/demo-local
	@$(CACHE)/tools/demo-local --cluster $(CLUSTER)

.PHONY: demo-link
demo-link: preflight ## a control plane outside of the cluster, which reaches it through the agent: objects, Services by name, a workstation without a kubeconfig, the cable pulled
	@$(GO) build -o $(CACHE)/tools/demo-link ./tests/link/cmd/demo-link
	@$(CACHE)/tools/demo-link

.PHONY: demo-jobs
demo-jobs: preflight ## jobs against HotROD's sandbox and the baseline, attached, with an artifact: with a kubeconfig alone, and through a control plane; a row in the store of a plugin, read by a sandbox's preview and by a job
	@$(GO) build -o $(CACHE)/tools/demo-jobs ./tests/link/cmd/demo-jobs
	@$(CACHE)/tools/demo-jobs

.PHONY: demo-traffic
demo-traffic: preflight ## requests of HotROD's forks, recorded, sent again to forks and baselines, and compared: one real difference is red; answers of a workstation; a Smart Test that fails on the fork
	@$(GO) build -o $(CACHE)/tools/demo-traffic ./tests/link/cmd/demo-traffic
	@$(CACHE)/tools/demo-traffic

.PHONY: demo-controlplane
demo-controlplane: preflight ## a control plane from its chart: a cluster connected, a sandbox applied through its API, a forked request through it, its preview in Chromium
	@$(GO) build -o $(CACHE)/tools/demo-controlplane ./tests/link/cmd/demo-controlplane
	@$(CACHE)/tools/demo-controlplane

# Packages with tests that take minutes: they start first, so that no processor is idle while
# the last one runs.
SLOW := ./reconcilers/manager ./tests/sweep ./reconcilers/meshes/istioadapter ./tests/chart ./tests/badobjects ./sidecars/devmesh/keeper ./tests/sweep/workflows

# Tests that run when something they are built from has changed since the last make test-all:
# those that need istiod, and those of the cluster tool.
WHEN_CHANGED := tests/meshes tools/cluster
# Tests of make test-all alone: the proof that the sweep finds faults that are put into the controllers.
BEFORE_RELEASE := tests/sweep/sensitivity
unchanged = $(if $(ALL),,$(shell tools/unchanged $(WHEN_CHANGED)))

# What make test runs, in this order: what needs no minutes of preparation first.
TEST_GROUPS := build vet gen-check test-units parts test-packages $(MODULES:%=test-in-%) test-cluster

# API servers and linkers of tests end before their memory matters: with a garbage collector that
# begins later they take a tenth less processor time.
.PHONY: test
test: export GOGC ?= 400
test: preflight ## what continuous integration runs; goes on after a group that failed
	@MAKE='$(MAKE)' tools/keep-going $(TEST_GROUPS)

.PHONY: test-all
test-all: export ALL := 1
test-all: test ## also the tests that make test skips while nothing they depend on has changed; before a release
	@if [ -z "$$(git status --porcelain -- . ':!tests/passed')" ]; then git rev-parse HEAD >tests/passed && echo 'All tests passed: commit tests/passed.'; \
		else echo 'All tests passed. tests/passed is left as it is: the working tree has changes that are not committed.'; fi

.PHONY: vet
vet: ## go vet
	$(call say,vet)
	$(GO) vet ./...

.PHONY: test-units
test-units: ## tests that need neither Kubernetes nor Envoy, and the rules of the house
	$(call say,the rules of the house and unit tests)
	$(GO) test -vet=off $(TIMEOUT) $(UNIT)

.PHONY: test-packages
test-packages: ## tests of every package: with a real API server and etcd, a real Envoy and istiod
	$(call say,tests of every package: with a real API server and etcd, a real Envoy and istiod)
	@# vet has read all of it before, with more checks than go test's own. Most of the time tests wait:
	@# four packages at a time used 65 % of two processors.
	@unchanged='$(unchanged)'; echo "skipped, unchanged since the last make test-all: $${unchanged:-nothing}"; \
		$(if $(ALL),,echo 'skipped, run by make test-all alone: $(BEFORE_RELEASE), buckets of MinIO';) \
		when=$$(for folder in $(filter-out tools/%,$(WHEN_CHANGED)); do [[ " $$unchanged " = *" $$folder "* ]] || echo "./$$folder"; done); \
		set -x; $(GO) test -vet=off -p 5 $(TIMEOUT) $(SLOW) $$when $(if $(ALL),$(BEFORE_RELEASE:%=./%)) $$(go list ./... | grep -v $(patsubst %,-e '^switchyard.dev/%',tests/e2e tests/bench/meshes tests/bench/jobs tests/upgrade tests/meshes tests/sweep/sensitivity))

.PHONY: $(MODULES:%=test-in-%)
$(MODULES:%=test-in-%): test-in-%: ## test-in-tools/cluster, …: vet and tests of a module of its own
	$(call say,tests of $*)
	@# Without -trimpath, even if it is exported: tools/cluster finds its build recipes beside its source.
	@if [[ ' $(unchanged) ' = *' $* '* ]]; then echo 'skipped: unchanged since the last make test-all'; \
		else set -x; cd $* && export GOFLAGS= && go vet ./... && go test -timeout 10m ./...; fi

.PHONY: test-cluster
test-cluster: ## tests on a real cluster
	$(call say,tests on a real cluster)
	$(GO) test -count=1 -v -timeout 20m ./tests/e2e

.PHONY: strays
strays: ## delete and restore the member of a routing key, and delete its namespace, 20 times under load, on a real cluster (as root, ten minutes; STRAYS_ROUNDS= for less)
	@STRAYS_ROUNDS=$${STRAYS_ROUNDS:-20} $(GO) test -count=1 -v -timeout 90m -run TestNoKeyStrays ./tests/e2e

.PHONY: test-upgrade
test-upgrade: ## an older release is upgraded under load, rolled back and upgraded again, on a real cluster
	$(call say,an upgrade from an older release, and back, under load on a real cluster)
	$(GO) test -count=1 -v -timeout 20m ./tests/upgrade

.PHONY: test-meshes
test-meshes: ## a real istiod and stock Envoys beside a real API server (as root)
	$(call say,a real mesh: istiod is compiled from a pinned module the first time (about ten minutes))
	$(GO) test -count=1 -v -timeout 30m ./tests/meshes

.PHONY: opinion-contour
opinion-contour: ## which of several routes wins, by Contour too (as root)
	$(call say,a second opinion on precedence: Contour is compiled from a pinned module the first time (about five minutes))
	$(GO) test -count=1 -v -timeout 30m ./tests/meshes -run TestPrecedenceIsThatOfContour -contour

.PHONY: e2e-meshes
e2e-meshes: preflight ## the operator beside Istio on a real cluster, with sidecars in pods, a gateway and owners who apply (as root)
	$(call say,Istio on a real cluster: it is compiled from a pinned module the first time (about a quarter of an hour))
	$(GO) test -count=1 -v -timeout 60m ./tests/meshes/node

.PHONY: e2e-workflows
e2e-workflows: preflight ## each sample of a resource plugin on a real cluster, with the stores that it works on (as root)
	$(call say,samples of resource plugins on a real cluster (the first time OpenTofu is compiled and Debian fetched: about six minutes))
	$(GO) test -count=1 -v -timeout 40m ./tests/e2e/workflows

# SUITE: flags of the suite's test, such as -test.run=TestMesh -run-test=MeshPorts.
SUITE ?=

.PHONY: conformance-meshes
conformance-meshes: preflight ## the Gateway API's conformance suite while the operator derives routes (as root, eight minutes; SUITE= for less)
	$(call say,the Gateway API and its conformance suite on a real cluster (compiled the first time: about 20 minutes))
	$(GO) test -C tests/meshes/conformance -c -o $(CACHE)/tools/conformance.test .
	@$(GO) build -o $(CACHE)/tools/conformance ./tests/meshes/node/cmd/conformance
	@$(CACHE)/tools/conformance $(CACHE)/tools/conformance.test -test.v -test.timeout=60m $(SUITE)

.PHONY: check
check: ## the inner loop: formatting, vet, the rules of the house and unit tests
	@test -z "$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go'))" || { gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go'); echo 'run: gofmt -w on these'; exit 1; }
	$(GO) vet ./...
	$(GO) test -vet=off $(TIMEOUT) $(UNIT)

.PHONY: build
build: ## link every program but those of tests, which vet compiles and their own targets link
	$(call say,every program)
	@# The programs are discarded: without debugging information linking takes half the time.
	$(GO) build -ldflags='-s -w' $$(go list ./... | grep -v '^switchyard.dev/tests/')

# Where make cli puts the command-line client: a folder on your PATH.
BIN ?= bin

.PHONY: cli
cli: ## build the command-line client: bin/switchyard, and bin/kubectl-switchyard (BIN=/usr/local/bin)
	@mkdir -p $(BIN)
	$(GO) build -buildvcs=true -o $(BIN)/switchyard ./tools/cmd/switchyard
	@ln -sf switchyard $(BIN)/kubectl-switchyard
	@printf '%s\n' '#!/bin/sh' 'exec kubectl switchyard __complete "$$@"' >$(BIN)/kubectl_complete-switchyard && chmod 755 $(BIN)/kubectl_complete-switchyard

.PHONY: parts
parts: ## build or fetch the real parts that tests need: Kubernetes, Helm, Envoy, Argo Rollouts, istiod, applications
	$(call say,Kubernetes and its tools from pinned modules (about six minutes the first time))
	tools/cluster/cluster build
	$(call say,Envoy)
	$(GO) run ./tools/envoy/cmd/envoy-path
	$(call say,the controller of Argo Rollouts from a pinned module (about five minutes the first time))
	$(GO) run ./tools/argo/cmd/argo-path
	$(call say,applications and protocol suites from pinned modules and from Debian (about two minutes the first time))
	$(GO) run ./tools/apps/cmd/apps-path
	$(call say,a small Debian for samples of resource plugins (about two minutes the first time))
	$(GO) run ./tools/samples/cmd/samples-path
	$(call say,istiod from a pinned module (about ten minutes the first time))
	@if [[ ' $(unchanged) ' = *' tests/meshes '* ]]; then echo 'left out: only tests/meshes needs it, which is unchanged since the last make test-all'; \
		else set -x; $(GO) test -vet=off -count=1 $(TIMEOUT) -run '^$$' ./tests/meshes; fi
	$(call say,what breaks disks for tests/faults and shows the rules of sidecars/redirect; stock clients and nft for tunnels)
	@{ command -v strace && command -v mkfs.ext4 && command -v iptables-legacy-save && command -v ssh && command -v curl && command -v nft; } >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends strace e2fsprogs iptables openssh-client curl nftables; }
	$(call say,PostgreSQL of Debian, without a server that runs, for the store of a control plane)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ mkdir -p /etc/postgresql-common/createcluster.d && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/switchyard.conf && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; }
	$(call say,Chromium of Debian and axe-core for pages)
	$(GO) run ./tests/browser/cmd/browser-parts

.PHONY: gen
gen: ## generate deepcopy, CRDs, RBAC rules, protobuf code, the command reference and the page of chart values
	go run -C tools/gen .
	$(GO) test -count=1 ./tools/cmd/switchyard -run Reference -update
	$(GO) test -count=1 ./tests/chart -run README -update

.PHONY: gen-check
gen-check: ## fail when anything generated is stale
	$(call say,generated files are fresh)
	go run -C tools/gen . --check

.PHONY: lint
lint: ## golangci-lint, built from its module
	@go build -C tools/lint -o $(CACHE)/tools/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	$(CACHE)/tools/golangci-lint run ./...
	@for module in $(MODULES); do (cd $$module && $(CACHE)/tools/golangci-lint run ./...); done

.PHONY: fields
fields: ## which row of which decision table shows that each published field counts (BRIEF=1: only what none shows)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		SWITCHYARD_FIELDS=$$dir $(GO) test -count=1 ./reconcilers/{sandbox,routegroup,forkedworkload,externalworkload,virtualworkload,routingconfig,resource,lifecyclemethods,job,jobrunnergroup,trafficcapture} ./workflows/jobpod ./sidecars/traffic/manager && \
		$(GO) run ./tests/fields/cmd/fields $(if $(BRIEF),-brief) "$$dir"

.PHONY: bench-table
bench-table: ## lookup, change, cold start and memory of the routing table
	$(GO) run ./tests/bench/table

.PHONY: bench-log
bench-log: ## durable publishing beside the raw fdatasync of the same disk
	$(GO) run ./tests/bench/log

# How often: 1,000 power cuts, 10,000 flipped bits, 300 of each other corruption.
ROUNDS ?= 1000
FLIPS ?= 10000
OTHERS ?= 300
FULL ?= 60s

.PHONY: faults
faults: ## break the disk under the event bus (as root, an hour; ROUNDS= FLIPS= OTHERS= FULL= SEED= for less)
	@$(GO) build -o $(CACHE)/tools/faults ./tests/faults/cmd/faults
	@$(CACHE)/tools/faults -rounds $(ROUNDS) -flips $(FLIPS) -others $(OTHERS) -full $(FULL) $(if $(SEED),-seed $(SEED))

# How often: 1,000 acknowledged writes each.
WRITES ?= 1000

.PHONY: faults-controlplane
faults-controlplane: ## kill writers to the store and replicas of a control plane, cut power and connections (as root, ten minutes; WRITES= SEED= for less)
	@$(GO) build -o $(CACHE)/tools/controlplane-faults ./tests/faults/controlplane/cmd/controlplane-faults
	@$(CACHE)/tools/controlplane-faults -writes $(WRITES) $(if $(SEED),-seed $(SEED))

# For how long: routes change under load, the control plane is away; and after how
# many random changes Envoys are compared with the table.
CHANGES ?= 10m
OUTAGE ?= 30m
RANDOM_CHANGES ?= 1000

.PHONY: endure
endure: ## DevMesh under changes, outages and restarts, with real parts (as root, 50 minutes; CHANGES= OUTAGE= RANDOM_CHANGES= SEED= for less)
	@$(GO) build -o $(CACHE)/tools/endure ./tests/devmesh/cmd/endure
	@CGO_ENABLED=0 GOFLAGS=-trimpath $(CACHE)/tools/endure -changes-for $(CHANGES) -outage $(OUTAGE) -random-changes $(RANDOM_CHANGES) $(if $(SEED),-seed $(SEED))

# At every how manyth write a process dies, how many runs with old caches, how many
# changes over an API server that fails, and how many sandboxes that come and go.
STEP ?= 1
STALE ?= 50
CHURN ?= 300
CYCLES ?= 1000

.PHONY: sweep
sweep: ## disturb the controllers at every write and with old caches, on a real API server (an hour; STEP= STALE= CHURN= CYCLES= SEED= for less, ONLY=captures for one part)
	@$(GO) build -o $(CACHE)/tools/sweep ./tests/sweep/cmd/sweep
	@$(CACHE)/tools/sweep -step $(STEP) -stale $(STALE) -changes $(CHURN) -cycles $(CYCLES) $(if $(ONLY),-only $(ONLY)) $(if $(SEED),-seed $(SEED))

.PHONY: sweep-jobs
sweep-jobs: ## 300 jobs while every 3 s the manager, an executor, its proxy, a pod, the agent, the control plane or the API server is killed; 20 pods evicted (JOBS= for fewer)
	@$(GO) test -count=1 -timeout 60m -v ./tests/sweep/jobs -args -jobs $(or $(JOBS),300) -every 3s -longest 3s -evicted 20 $(if $(SEED),-seed $(SEED))

.PHONY: sweep-jobs-node
sweep-jobs-node: preflight ## 50 jobs on the one-node cluster while every 3 s a pod is deleted or evicted, or the API server is killed
	@$(GO) test -count=1 -timeout 60m -v -run TestJobsAreKilledOnTheNode ./tests/sweep/jobs -args -node

.PHONY: sweep-workflows
sweep-workflows: ## the manager, the IO context server and pods die at every write of a workflow of five units (as root, 45 minutes; STEP= ONLY= for less)
	@$(GO) build -o $(CACHE)/tools/sweep-workflows ./tests/sweep/workflows/cmd/sweep-workflows
	@$(CACHE)/tools/sweep-workflows -step $(STEP) -only "$(ONLY)"

.PHONY: bench-history
bench-history: ## old versions of the table, rebuilt from the log elsewhere: equal, and how fast
	$(GO) run ./tests/bench/history

.PHONY: bench-explain
bench-explain: ## 200 requests that go wrong: of how many the cause is named
	$(GO) run ./tests/bench/explain

.PHONY: bench-comparison
bench-comparison: preflight ## forks compared with their baselines: generated noise and faults beside other rules, HotROD and podinfo (as root, 15 minutes; ARGS='-services 50 -real 20' for less)
	$(GO) run ./tests/bench/comparison $(ARGS)

.PHONY: bench-watch
bench-watch: ## a change to the last of 500 watchers, and what a stopped one costs
	$(GO) run ./tests/bench/watch

.PHONY: bench-controlplane
bench-controlplane: preflight ## a change from the REST API of a control plane to 20 clusters, while a replica is killed and after outages (as root, ten minutes; ARGS='-for 30s' for less)
	@$(GO) build -o $(CACHE)/tools/controlplane ./controlplane-link/cmd/controlplane
	@$(GO) run ./tests/bench/controlplane -program $(CACHE)/tools/controlplane $(ARGS)

.PHONY: bench-xds
bench-xds: ## a change of routes to the acknowledgement of the last of 500 and 5,000 sidecars
	$(GO) run ./tests/bench/xds

.PHONY: bench-devmesh
bench-devmesh: ## what the sidecar costs a request, beside a bare Envoy, and what attacks make it hold (as root, 15 minutes)
	$(GO) run ./tests/bench/devmesh

# ROWS: only the rows with this text in their name.
ROWS ?=

.PHONY: bench-streams
bench-streams: ## large bodies through the sidecar, beside a stock Envoy (as root, 20 minutes; ROWS= for fewer)
	$(GO) run ./tests/transparency/cmd/streams -rows "$(ROWS)"

# STALL: instead, so many downloads of 1 GiB on a loaded machine. RESTARTS: how often each
# application is restarted.
STALL ?= 0
RESTARTS ?= 5

.PHONY: transparency
transparency: ## compare the responses of applications with and without the sidecar, over a preview, and with a capture (as root, 55 minutes; ONLY=restarts, previews, capture or h2spec, RESTARTS=1 for less; STALL=50 for downloads on a loaded machine)
ifneq ($(STALL),0)
	$(GO) run ./tests/transparency/cmd/streams -stall $(STALL)
else
ifneq ($(ONLY),restarts)
	@$(GO) build -o $(CACHE)/tools/transparency ./tests/transparency/cmd/transparency
	@CGO_ENABLED=0 GOFLAGS=-trimpath $(CACHE)/tools/transparency $(if $(ONLY),-only $(ONLY))
endif
ifneq ($(filter restarts,$(or $(ONLY),restarts)),)
	@$(GO) build -o $(CACHE)/tools/restarts ./tests/transparency/cmd/restarts
	@$(CACHE)/tools/restarts -times $(RESTARTS)
endif
endif

# How many connections attackers have at once; LISTENERS: only the listeners with this text in their name.
ATTACKERS ?= 2000
LISTENERS ?=

.PHONY: hostile
hostile: preflight ## attack every listener on a real cluster: honest callers, memory, connections (as root, ten minutes; ATTACKERS= LISTENERS= for less, FORWARDED=1 for those by port-forwards and by pods of units alone)
	@$(GO) build -o $(CACHE)/tools/hostile ./tests/hostile/cmd/hostile
	@$(CACHE)/tools/hostile -attackers $(ATTACKERS) -only "$(LISTENERS)" $(if $(FORWARDED),-forwarded)

.PHONY: bench-admission
bench-admission: ## 200 pods at once: what the injecting webhook costs them, working and broken
	$(GO) run ./tests/bench/admission

.PHONY: bench-meshes
bench-meshes: ## a new sandbox beside 500 on one Service, from the log to the proxies of a real mesh, beside kubectl (as root, seven minutes)
	@$(GO) test -c -o $(CACHE)/tools/bench-meshes ./tests/bench/meshes
	@$(CACHE)/tools/bench-meshes

# How many objects there are, and for how long users change some.
OBJECTS ?= 10000
SANDBOXES ?= 500
FOR ?= 60s

.PHONY: bench-reconcilers
bench-reconcilers: ## 10,000 objects, 100 changes a second: agreement, memory, writes (as root, six minutes; OBJECTS= SANDBOXES= FOR= for less)
	@$(GO) build -o $(CACHE)/tools/bench-reconcilers ./tests/bench/reconcilers
	@CGO_ENABLED=0 GOFLAGS=-trimpath $(CACHE)/tools/bench-reconcilers -objects $(OBJECTS) -sandboxes $(SANDBOXES) -for $(FOR)

# How often one script is run in each way, and how many resources are made at once.
TIMES ?= 15
RESOURCES ?= 200

.PHONY: bench-workflows
bench-workflows: preflight ## a unit of a resource beside a Job and Argo Workflows, and 200 resources at once, on a real cluster (as root, 20 minutes; TIMES= RESOURCES= for less)
	@$(GO) build -o $(CACHE)/tools/bench-workflows ./tests/bench/workflows
	@$(CACHE)/tools/bench-workflows -rounds $(TIMES) -resources $(RESOURCES)

# How often a job prints a line in each way on a real cluster, without which that part is left out; and flags of the rest.
CLUSTER_JOBS ?= 15

.PHONY: bench-traffic
bench-traffic: ## what a capture costs requests and how much it misses, beside a bare connection, a stock Envoy, Envoy with tap and with ext_proc, mitmproxy and goreplay (as root, 40 minutes; ARGS=-short for less)
	@$(GO) build -o $(CACHE)/tools/bench-traffic ./tests/bench/traffic
	@$(CACHE)/tools/bench-traffic -cache $(CACHE) $(ARGS)

.PHONY: bench-jobs
bench-jobs: preflight ## jobs on pods that are there: the first line, the next job, 1,000 jobs and their writes, turns, output at 100 MB/s; then beside a Job, kubectl run and Argo Workflows on a real cluster (as root, 20 minutes; CLUSTER_JOBS=0 without the cluster, ARGS='-jobs 100' for less, PROFILES= for a folder of profiles)
	@$(GO) test -c -o $(CACHE)/tools/bench-jobs ./tests/bench/jobs
	@$(GO) build -o $(CACHE)/tools/bench-workflows ./tests/bench/workflows
	@$(CACHE)/tools/bench-jobs $(ARGS)
	@[ $(CLUSTER_JOBS) = 0 ] || $(CACHE)/tools/bench-workflows -jobs $(CLUSTER_JOBS)

.PHONY: bench-tunnels
bench-tunnels: ## a tunnel beside raw TCP, ssh -R, chisel and frp at 0, 20 and 100 ms, its way back after a cut, and 10,000 idle connections (as root, 25 minutes; ARGS=-muxes for multiplexers alone)
	@$(GO) build -C tests/bench/tunnels -o $(CACHE)/tools/bench-tunnels .
	@$(CACHE)/tools/bench-tunnels -cache $(CACHE)/tunnels $(ARGS)

.PHONY: bench-link
bench-link: override ARGS += -link
bench-link: bench-tunnels ## the link of an agent beside plain TLS, konnectivity, remotedialer and tunnels at 0, 20 and 100 ms, previews beside nginx, a stalled stream among 1,000, and streams beside requests with loss (as root, 45 minutes; ARGS='-rounds 1' for less)

# How many changes a page shows, and the folder for its screenshots.
PAGE_CHANGES ?= 100
SCREENSHOTS ?= $(CACHE)/screenshots

.PHONY: bench-page
bench-page: ## a change of a sandbox until a person sees it in Chromium, and a page after a restart of its control plane (as root, two minutes; PAGE_CHANGES= for less)
	$(GO) test -vet=off -count=1 -v -timeout 30m ./tests/browser -run 'TestPage$$' -changes $(PAGE_CHANGES) -screenshots $(SCREENSHOTS)

.PHONY: clients-tunnels
clients-tunnels: ## psql, grpcurl and other stock clients through a tunnel, both ways, beside a real API server (as root, two minutes)
	$(call say,psql and grpcurl through a tunnel: grpcurl is compiled from a pinned module and Debian fetched the first time)
	$(GO) test -vet=off -count=1 -v -timeout 10m ./tunnels/proxy -run 'TestCurl|TestStock|TestABrowser' -stock

# For how long proxies and the API server are killed, and how many sandboxes come and go.
DURATION ?= 10m
COMINGS ?= 1000

.PHONY: faults-tunnels
faults-tunnels: ## tunnel proxies and the API server are killed in turn under load: requests, connections, their audit (as root, 12 minutes; DURATION=1m for less)
	@$(GO) build -o $(CACHE)/tools/tunnels ./tests/tunnels/cmd/tunnels
	@CGO_ENABLED=0 GOFLAGS=-trimpath $(CACHE)/tools/tunnels faults -for $(DURATION)

.PHONY: faults-link
faults-link: ## the network between agents and link servers is interrupted, 1,000 agents lose their server, replicas are killed (as root, 15 minutes; ROUNDS=5 for less, ONLY=cuts, herd, proxy or replicas)
	@$(GO) build -o $(CACHE)/tools/faults-link ./tests/link/outages/cmd/faults-link
	@CGO_ENABLED=0 GOFLAGS=-trimpath $(CACHE)/tools/faults-link -rounds $(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),50) $(if $(ONLY),-only $(ONLY))

.PHONY: developers
developers: ## two developers on one baseline create and delete sandboxes as they connect and disconnect (as root, ten minutes; CHANGES=50 for less)
	@$(GO) build -o $(CACHE)/tools/tunnels ./tests/tunnels/cmd/tunnels
	@CGO_ENABLED=0 GOFLAGS=-trimpath $(CACHE)/tools/tunnels developers -changes $(if $(filter command line environment,$(origin CHANGES)),$(CHANGES),$(COMINGS))

.PHONY: down
down: ## take the one-node cluster down and leave nothing
	tools/cluster/cluster down

.PHONY: preflight
preflight:
	@tools/preflight $(CLUSTER)
