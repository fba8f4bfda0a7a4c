# evenkeel. Needs Go, git and GNU make; `make race` also a C compiler.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

GO      ?= go
BIN     := bin
VERSION ?= $(shell git describe --tags --always --abbrev=12 --dirty 2>/dev/null || echo unknown)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# Modules that test, lint, verify and vuln visit after the main one, unless they cannot be built here: with LINKED=require that
# is an error.
MODULES := $(patsubst %/go.mod,%,$(wildcard integrations/*/go.mod))
# The releases of Cluster Autoscaler for which such a module is written into bin.
RELEASES := $(patsubst integrations/port/%.patch,%,$(wildcard integrations/port/*.patch))
# The name of the image, and what it is made for.
IMAGE         ?= ghcr.io/evenkeel/evenkeel
ARCHITECTURES ?= amd64 arm64
# The platforms that a release has archives for.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
# A file with the versions of the manual that are published, one a line, for the list on its pages.
VERSIONS  ?=
# The line of Cluster Autoscaler that is built with evenkeel linked: empty for the newest, 1.36 for that release.
RELEASE ?=
# Packages that start goroutines or must bear being called from several.
RACE    ?= ./balancer/reconcile/... ./cloudprovider/... ./deletioncost/reconcile/... ./expander/grpcexpander/... ./fake/... \
	./federation/join/... ./federation/members/... ./federation/reconcile/... ./internal/controller/... ./internal/fakecloud/... \
	./internal/linked/... ./internal/page/... ./internal/provisioning/... ./internal/serving/... ./internal/webhooks/... ./sidecar/cluster/... \
	./workloadspread/admission/... ./workloadspread/reconcile/... ./workloadspread/store/...
# Tests of packages that mostly compute: those that share something between goroutines.
RACETESTS ?= ^Test(CheckerMayBeShared|QuestionsEnd|SteeringServed|ExpanderAlone|TheCloudIsSlow|TheJournalIs|ARequestTimesOut|AnIncrease|TheLeaderMoves|OneGroupDoesNotAnswer|TheSidecarIs|ProvisioningRequests|Detection|TheExpander)
# Packages whose tests take longest. They begin first, so that none runs alone in the end.
LONGEST := ./sidecar ./internal/simulate
# Arguments of bench, fuzz and test: packages, a pattern of names, times, further flags of go test.
PKG       ?= ./...
BENCH     ?= .
TIME      ?= 1s
COUNT     ?= 1
FUZZTIME  ?= 10s
WORLDS    ?= 10000
FROM      ?= 0
TESTFLAGS ?=
# Targets that write generated files; verify runs them and expects the files unchanged.
GENERATED := generate-go generate-proto generate-api generate-mixin generate-chart
# The kinds that are custom resources, in the plural.
RESOURCES := balancers federatedreplicasets memberclusters workloadspreads

# buf is built by its own module file: together with the other tools it cannot be tidied.
BUF_VERSION := v1.75.0
BUF         := $(BIN)/buf-$(BUF_VERSION)

# modules runs a command in every module that links evenkeel, each in the main module as well. Both stop at the first that fails.
modules = for m in $(MODULES); do (. integrations/enter; $(1)) || exit 1; done
each = ($(1)) && $(call modules,$(1))

# The module that links a release, the newest where it is empty; port writes that of an older one, which a workspace may name before.
linked = $(if $(1),$(BIN)/clusterautoscaler-$(1),integrations/clusterautoscaler)
port   = integrations/port/write $(1) $(call linked,$(1))

# The program for a platform. The same commit and the same release of Go give the same bytes, whatever the machine, the folder and the
# environment are.
program = $(BIN)/$(subst /,-,$(1))/evenkeel$(if $(filter windows/%,$(1)),.exe)
compile = GOFLAGS= GOEXPERIMENT= GOFIPS140=off GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 GOOS=$(firstword $(subst /, ,$(1))) \
	GOARCH=$(lastword $(subst /, ,$(1))) $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(call program,$(1)) ./cmd/evenkeel

##@ Use
.PHONY: help build image release-dry-run site cluster-autoscaler run
help: ## Print this help.
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## Build bin/evenkeel.
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/evenkeel ./cmd/evenkeel

image: ## Write dist/image: an OCI layout with the container image, for ARCHITECTURES (docs/install.md).
	@rm -rf dist/image
	@$(foreach a,$(ARCHITECTURES),$(call compile,linux/$(a)) &&) :
	@GOWORK=off $(GO) run -C release ./cmd/image -output $(CURDIR)/dist/image -name $(IMAGE):$(VERSION) -version $(VERSION) \
		-commit $(COMMIT) -date $(DATE) $(ARCHITECTURES:%=$(CURDIR)/$(BIN)/linux-%/evenkeel)

release-dry-run: ## Write dist/release: all files of a release, for PLATFORMS, without a network (docs/releases.md).
	@rm -rf dist/release
	@$(foreach p,$(PLATFORMS),$(call compile,$(p)) &&) :
	@GOWORK=off $(GO) run -C release ./cmd/release -output $(CURDIR)/dist/release -notes $(CURDIR)/dist/notes.md -source $(CURDIR) \
		-version $(VERSION) -date $(DATE) $(foreach p,$(PLATFORMS),$(CURDIR)/$(call program,$(p)))

# hugo is built from source the first time, which takes minutes.
site: ## Write dist/site: the manual as web pages with search (VERSION=v0.2.0; VERSIONS=FILE names those published, newest first).
	@rm -rf dist/site
	@cd configs/site && GOWORK=off $(GO) run ./cmd/site -output $(CURDIR)/dist/site -version $(VERSION) -ref $(COMMIT) \
		$(if $(VERSIONS),-versions $(abspath $(VERSIONS)))

# All cloud providers are in it: minutes and some gigabytes of memory the first time.
cluster-autoscaler: ## Build bin/cluster-autoscaler: a Cluster Autoscaler with evenkeel linked (RELEASE=1.36, else the newest).
	@$(if $(RELEASE),$(if $(filter $(RELEASE),$(RELEASES)),$(call port,$(RELEASE)),echo "RELEASE=$(RELEASE): must be one of $(RELEASES), or empty for the newest" >&2; exit 2))
	@m=$(call linked,$(RELEASE)) missing=1; . integrations/enter; \
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/$(BIN)/$@ ./cmd/cluster-autoscaler

run: build ## Play the main job: the pods of a real cluster on an empty fleet.
	@$(BIN)/evenkeel simulate -f configs/scenarios/real-cluster.yaml

##@ Test
.PHONY: test image-test release-test chart-test mixin-test site-test race worlds nightly e2e fuzz bench compare
# A fifth less processor time, for memory that there is.
test race worlds: export GOGC ?= 400
test: ## Run all tests.
	@$(GO) test -p 3 $(TESTFLAGS) $(LONGEST) ./...
	@$(call modules,$(GO) test $(TESTFLAGS) ./...)
	@cd release && GOWORK=off $(GO) test $(TESTFLAGS) ./...
	@$(MAKE) mixin-test chart-test site-test
	@$(foreach r,$(RELEASES),$(call port,$(r)) && (m=$(call linked,$(r)); . integrations/enter; $(GO) test $(TESTFLAGS) ./...) &&) :

chart-test: ## Test the Helm chart: its suites, what it refuses, its objects against Kubernetes 1.33 to 1.36, and the manifests made from it.
	@cd configs/charts && GOWORK=off $(GO) test $(TESTFLAGS) ./...

mixin-test: ## Test the rules for Prometheus and the dashboards: play series against each alert, and compare with the pages about metrics and alerts.
	@cd configs/mixin && GOWORK=off $(GO) test $(TESTFLAGS) ./...

site-test: ## Test the web pages: links, headings, search in Chromium, versions, the same bytes twice.
	@cd configs/site && GOWORK=off $(GO) test $(TESTFLAGS) ./...

image-test: ## Build image and release of the last commit in two clones, compare every byte, check the release, and run the image as the manifests do.
	@cd release && GOWORK=off $(GO) test ./image -count=1 -timeout 30m $(TESTFLAGS) -run '^TestClones$$' -repository $(CURDIR)

release-test: release-dry-run ## Write dist/release, and check it as somebody who downloads it can: checksums, krew, schemas, chart, the program.
	@cd release && GOWORK=off $(GO) test ./artifacts -count=1 $(TESTFLAGS) -run '^TestMade$$' -made $(CURDIR)/dist/release -version $(VERSION)
	@cd configs/charts && GOWORK=off $(GO) test . -count=1 $(TESTFLAGS) -run '^TestPacked$$' -packed $(CURDIR)/dist/release/evenkeel-*.tgz

race: ## Run the tests of what is concurrent under the race detector.
	@CGO_ENABLED=1 $(GO) test -race -short $(TESTFLAGS) $(RACE)
	@CGO_ENABLED=1 $(GO) test -race -short $(TESTFLAGS) -run '$(RACETESTS)' ./predicates ./sidecar

worlds: ## Play random worlds against the sidecar, Balancers, FederatedReplicaSets and WorkloadSpreads, more than test does (WORLDS=10000 FROM=0).
	@$(GO) test ./sidecar -count=1 -timeout 60m $(TESTFLAGS) -run '^Test((Exact|NeverLater)InRandomWorlds|FloorsAreNeverAboveTheSize)$$' -worlds $(WORLDS) -from $(FROM)
	@$(GO) test ./replica -count=1 -timeout 60m $(TESTFLAGS) -run '^Test(EditsInFlight|NothingMovesTwice)$$' -worlds $(WORLDS) -from $(FROM)
	@$(GO) test ./balancer -count=1 -timeout 60m $(TESTFLAGS) -run '^TestClosedLoopIsQuiet$$' -loops $(WORLDS) -from $(FROM)
	@$(GO) test ./federation -count=1 -timeout 60m $(TESTFLAGS) -run '^TestClosedLoopSettles$$' -loops $(WORLDS) -from $(FROM)
	@$(GO) test ./workloadspread -count=1 -timeout 60m $(TESTFLAGS) -run '^TestCountsEqualThePodsAfterQuiet$$' -loops $(WORLDS) -from $(FROM)
	@$(GO) test ./workloadspread/reconcile -count=1 -timeout 60m $(TESTFLAGS) -run '^TestCountsEqualThePodsWhateverFails$$' -loops $(WORLDS) -from $(FROM)

nightly: worlds ## Search for longer than a change can wait: 10,000 worlds, larger models, a day of one sidecar, 500 Balancers, 200 FederatedReplicaSets over five clusters, 1,000 pods of WorkloadSpreads at once, 50,000 clusters with spread pods, 10,000 random fleets of each kind in simulate, ten times the draws of every property, the tests on a control plane in their long form, a mixed fleet beside a stock Cluster Autoscaler where CLUSTER_AUTOSCALER_BINARY names one, and every fuzz target for five minutes.
	@$(GO) test ./steering -count=1 -timeout 60m $(TESTFLAGS) -run '^TestModel$$' -deep
	@$(GO) test ./sidecar -count=1 -timeout 60m $(TESTFLAGS) -run '^TestDay$$' -day 24h
	@$(GO) test ./topologyspread -count=1 -timeout 60m $(TESTFLAGS) -run '^TestFitsAndScoresEqualThoseOfTheScheduler$$' -clusters 50000
	@$(GO) test ./internal/simulate -count=1 -timeout 300m $(TESTFLAGS) -run '^TestModesOnRandomFleets$$' -fleets 10000
	@RAPID_CHECKS=1000 $(GO) test ./... -count=1 -timeout 120m $(TESTFLAGS)
	@$(MAKE) e2e
	@cd e2e && $(GO) test -count=1 -timeout 60m $(TESTFLAGS) -run '^TestFleetOfBalancers$$' . -balancers 500
	@cd e2e && $(GO) test -count=1 -timeout 60m $(TESTFLAGS) -run '^TestFederatedLoad$$' . -federated 200 -federated-clusters 5 -federated-idle 1m
	@cd e2e && $(GO) test -count=1 -timeout 60m $(TESTFLAGS) -run '^TestWorkloadSpreads$$/^ten' . -spread-pods 100
	@cd e2e && $(GO) test -count=1 -timeout 60m $(TESTFLAGS) -run '^TestStockAutoscaler(OnAMixedFleet|IsNotFasterAloneOnMixedFleets|ProvisionsRequests)$$' . -mixed-for 20m
	@$(MAKE) fuzz FUZZTIME=5m

# These tests wait more than they work, so more of them run at a time than there are cores.
e2e: ## Run the tests on a real control plane, built from source the first time (minutes; TESTFLAGS=-short leaves out the loads).
	@cd e2e && $(GO) run ./cmd/build && $(GO) test -count=1 -timeout 60m -parallel 4 $(TESTFLAGS) ./...

fuzz: ## Fuzz every target for a while (FUZZTIME=10s PKG=./...).
	@list=$$($(GO) test -list '^Fuzz' $(PKG)) || { echo "$$list"; exit 1; }; \
	echo "$$list" | awk '/^Fuzz/ {name[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2, name[i]; n = 0}' | \
	while read -r package name; do \
		echo "$$name in $$package"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
	done

bench: ## Run the benchmarks (BENCH=regexp PKG=./... TIME=1s COUNT=1).
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(TIME) -count $(COUNT) -timeout 60m $(TESTFLAGS) $(PKG)

compare: ## Compare two outputs of bench (OLD=old.txt NEW=new.txt; COUNT=10 gives benchstat enough to judge).
	@$(GO) tool -modfile=tools/go.mod benchstat $(OLD) $(NEW)

LINT = $(CURDIR)/$(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yaml ./...

##@ Check
.PHONY: lint gofmt generate verify vuln clean $(GENERATED)
lint: gofmt $(BIN)/golangci-lint ## Check format and run golangci-lint, vet included.
	@$(call each,$(LINT))
	@cd e2e && $(LINT)
	@cd release && GOWORK=off $(LINT)
	@cd configs/charts && GOWORK=off $(LINT)
	@cd configs/mixin && GOWORK=off $(LINT)
	@cd configs/site && GOWORK=off $(LINT)

gofmt:
	@files=$$(gofmt -l .); \
	[ -z "$$files" ] || { echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; }

# Built from source at the version of tools/go.mod; minutes the first time, seconds with a warm build cache.
$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	@$(GO) build -C tools -trimpath -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

generate: $(GENERATED) ## Write all generated files.

generate-go:
	@$(GO) generate ./...

generate-proto: $(BUF)
	@$(BUF) lint
	@$(BUF) generate

# The tool writes a definition for every kind, planning documents included; a cluster stores some of them only.
generate-api:
	@rm -rf $(BIN)/crd
	@$(GO) tool -modfile=tools/go.mod controller-gen paths=./api/... object crd output:crd:dir=$(BIN)/crd
	@mkdir -p configs/crd && cp $(RESOURCES:%=$(BIN)/crd/evenkeel.dev_%.yaml) configs/crd

generate-mixin:
	@cd configs/mixin && GOWORK=off $(GO) run ./cmd/generate

# After generate-api and generate-mixin: the definitions and the rules are in the chart.
generate-chart: generate-api generate-mixin
	@cd configs/charts && GOWORK=off $(GO) run ./cmd/generate

# Minutes the first time, seconds with a warm build cache.
$(BUF):
	@GOBIN=$(CURDIR)/$(BIN)/buf.tmp $(GO) install -trimpath github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)
	@mv $(BIN)/buf.tmp/buf $@ && rmdir $(BIN)/buf.tmp

verify: export GOWORK := off
verify: gofmt ## Check that generated files, go.mod and go.sum are up to date.
	@$(call each,$(GO) mod tidy -diff)
	@for m in tools release configs/charts configs/mixin configs/site e2e e2e/programs; do (cd $$m && $(GO) mod tidy -diff) || exit 1; done
	@state() { git diff; git ls-files -o --exclude-standard; }; \
	mkdir -p $(BIN); state >$(BIN)/before; $(MAKE) generate && state >$(BIN)/after; \
	diff $(BIN)/before $(BIN)/after || { echo "generated files were stale: commit what make generate wrote"; exit 1; }

vuln: ## Look for known vulnerabilities (asks vuln.go.dev).
	@$(GO) build -C tools -o ../$(BIN)/govulncheck golang.org/x/vuln/cmd/govulncheck
	@$(call each,$(CURDIR)/$(BIN)/govulncheck ./...)
	@cd release && GOWORK=off $(CURDIR)/$(BIN)/govulncheck ./...
	@cd configs/charts && GOWORK=off $(CURDIR)/$(BIN)/govulncheck ./...
	@cd configs/mixin && GOWORK=off $(CURDIR)/$(BIN)/govulncheck ./...
	@cd configs/site && GOWORK=off $(CURDIR)/$(BIN)/govulncheck ./...

clean: ## Remove what was built.
	@rm -rf $(BIN) dist
