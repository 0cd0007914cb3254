SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The modules of this repository.
MODULES := . e2e tools
# The tools are pinned in a module of their own, so that the program's module stays lean.
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
# Flags for the demo, as in: make demo DEMOFLAGS=-keep
DEMOFLAGS ?=
# The path of a built consumer, for the demo
CONSUMER ?=
# More flags for go test, as in: make test TESTFLAGS=-short
TESTFLAGS ?=
# The packages of the end-to-end tests, as in: make e2e PACKAGES=.
PACKAGES ?= ./...
# Flags for the chaos, as in: make chaos CHAOSFLAGS='-duration 10m -compare'; -help lists them
CHAOSFLAGS ?=
# Flags for the measurement of continuity, as in: make continuity CONTINUITYFLAGS='-only kill,join -set KAFKA_LEASE=3s'; '-args -help' lists them
CONTINUITYFLAGS ?=
# Flags for the benchmark, as in: make bench-e2e BENCHFLAGS='-records 4000000 -rounds 1'; '-args -help' lists them
BENCHFLAGS ?=

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/waterwheel, static
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/waterwheel ./cmd/consumer

.PHONY: demo
demo: ## show it at work on this machine, with embedded servers (DEMOFLAGS=-h explains it, CONSUMER=path takes a built consumer)
	@cd e2e && go run ./cmd/demo/launch $(if $(CONSUMER),-consumer $(abspath $(CONSUMER))) $(DEMOFLAGS)

.PHONY: test
test: ## run the tests of the program's packages, with the race detector, then those of the tools; what fails runs again
	cd tools && go run ./testreport -in .. go test -race -shuffle=on -timeout=20m -json $(TESTFLAGS)
	cd tools && go test -count=1 -timeout=5m ./...

.PHONY: ci
ci: lint test sim model e2e ## check everything that needs no other servers: .ci/run adds a real Kafka and chaos

.PHONY: sim
sim: ## simulate the protocol and a crowd of partitions, and see that each guard is missed, each defect noticed (TESTFLAGS='-sim.runs 20000' for more)
	go test ./pipeline -count=1 -timeout=1h -run 'TestSimulation|StandsStill|NotSlowed' -v -sim.defects $(TESTFLAGS)
	ROLLUP_DEFECTS=1 go test ./internal/keeper -count=1 -timeout=1h -run 'TestModel' -v -model.runs 3000

.PHONY: model
model: ## compare the bucket catalog with a naive model, over 100,000 random streams (TESTFLAGS='-seed N' for others); and model the compaction of segments
	go test ./bucketer -count=1 -timeout=1h -run 'TestModel$$|TestStoredOnce' -v -streams 100000 $(TESTFLAGS)
	go test ./internal/segments -count=1 -v

# The tests mostly wait, so four run at once. All four are of one package, because some tests measure memory.
.PHONY: e2e
e2e: ## run the end-to-end tests (E2E_KAFKA_BROKERS and E2E_MONGODB_URI name servers, else embedded ones); what fails runs again
	cd e2e && go build ./...
	cd tools && go run ./testreport -in ../e2e -of '$(PACKAGES)' go test -count=1 -timeout=25m -p=1 -parallel=4 -json $(TESTFLAGS)

.PHONY: chaos
chaos: ## disturb three consumers on a real cluster for 3 minutes, judge what they stored (E2E_KAFKA_LIBS, E2E_MONGODB_URI)
	cd e2e && go run ./cmd/chaos $(CHAOSFLAGS)

.PHONY: continuity
continuity: ## measure how long partitions stand still when consumers come, go or die (E2E_KAFKA_LIBS or E2E_KAFKA_BROKERS, E2E_MONGODB_URI)
	cd e2e && go test -count=1 -v -timeout=0 ./continuity -run '^TestContinuity$$' -measure $(CONTINUITYFLAGS)

.PHONY: outages
outages: ## time the recovery from each outage (E2E_KAFKA_LIBS, E2E_MONGODB_URI)
	cd e2e && go test -count=1 -v -timeout=30m ./chaos -outage=1m $(TESTFLAGS)

.PHONY: lint
lint: ## check format and code of all modules
	@files=$$($(TOOL) gofumpt -l .); if [ -n "$$files" ]; then echo "not formatted (run make format):"; echo "$$files"; exit 1; fi
	for m in $(MODULES); do echo "lint: module $$m"; (cd $$m && go vet ./... && $(TOOL) staticcheck ./... && $(TOOL) golangci-lint run ./...); done
	bash -n .ci/run

.PHONY: format
format: ## format all code
	$(TOOL) gofumpt -w .

.PHONY: vuln
vuln: ## look the dependencies up in Go's database of vulnerabilities (needs the internet)
	$(TOOL) govulncheck ./...

.PHONY: bench
bench: ## run the benchmarks of the hot paths
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-e2e
bench-e2e: ## measure from Kafka to MongoDB beside other ways to do it (E2E_KAFKA_BROKERS, E2E_MONGODB_URI; BENCHFLAGS='-args -help')
	cd e2e && go test -count=1 -v -timeout=0 ./bench -run '^TestMeasure$$' -measure $(BENCHFLAGS)

.PHONY: module
module: ## write another module path into go.mod and all imports (MODULE=example.com/you/waterwheel)
	@test -n "$(MODULE)" || { echo "name the path, as in: make module MODULE=example.com/you/waterwheel" >&2; exit 2; }
	old=$$(go list -m); \
	find . -name '*.go' -exec sed -i "s#\"$$old/#\"$(MODULE)/#" {} +; \
	sed -i -E "s#^(module |replace |\t)$$old( |/|\$$)#\1$(MODULE)\2#" go.mod e2e/go.mod tools/go.mod tools/deploy/go.mod
	$(MAKE) --no-print-directory format
	go list -m

# The tests of the packages check the files that are made from tables. This module has Helm and Kubernetes in it, and is built apart.
.PHONY: deploy
deploy: ## lint and test what deploys: chart, manifests, image, release
	cd tools/deploy && go vet ./... && $(TOOL) staticcheck ./... && $(TOOL) golangci-lint run ./... && go test -count=1 -timeout=15m $(TESTFLAGS) ./...

.PHONY: manifests
manifests: ## render deploy/manifests from deploy/chart
	cd tools/deploy && go run ./cmd/manifests ../..

.PHONY: image
image: ## write the image of the last commit for amd64 and arm64 into dist/image, an OCI layout: the same digest each time (VERSION=v1.2.3)
	rm -rf dist/image
	cd tools/deploy && go build -o ../../bin/ship ./cmd/ship
	bin/ship -version "$(VERSION:-dirty=)" -out dist/image image

.PHONY: release
release: ## write archives of the last commit, chart, bill of materials and checksums into dist/release: the same bytes each time (VERSION=v1.2.3)
	rm -rf dist/release
	cd tools/deploy && go build -o ../../bin/ship ./cmd/ship
	bin/ship -version "$(VERSION:-dirty=)" -out dist/release release

.PHONY: docs
docs: ## write the generated documents, the dashboard and the schema of the chart
	go run ./cmd/consumer config --markdown > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md
	go run ./deploy/generate
