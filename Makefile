# Headwater. `make help` lists the targets; CI runs check and test.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build run test large race fuzz bench bench-peer resident generate check kernel-test kubernetes-test verify-mixed named-share soak fmt pyroscope grafana-agent-flow agent-test

# The version is git's, unless git refuses to look into a checkout that belongs to somebody else.
STAMP    := $(shell git status --short >/dev/null 2>&1 && echo true || echo false)
UNIT      = $(shell go list ./... | grep -v '/integration$$')
FUZZTIME ?= 20s
SOAK     ?= 10m
CRASHES  ?= 200
OUTAGE   ?= 10m
LOAD_SECONDS ?= 60
ADDRESS  := 127.0.0.1:12345

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./headwater (needs Go only: the BPF objects are in the tree)
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(STAMP) -o headwater .

run: build ## profile this host and serve its flame graphs; needs root
	@[ "$$(id -u)" = 0 ] || { echo "make run: profiling needs root" >&2; exit 1; }
	@echo "The flame graph page: http://$(ADDRESS)/api/v0/component/pyroscope.ebpf.host/    (Ctrl-C ends)"
	./headwater run --server.http.listen-addr=$(ADDRESS) river/examples/quickstart.river

test: pyroscope ## run all tests, with the real kernel, Pyroscope and a browser; needs root
	integration/packages test
	REQUIRE_KERNEL=1 go test -count=1 -timeout 10m $(UNIT)
	REQUIRE_KERNEL=1 go test -count=1 -timeout 30m -v ./integration

large: ## compare whole unwind tables of libLLVM, node, chromium and others with readelf's
	HEADWATER_LARGE=1 go test -count=1 -v -run 'Readelf' ./ebpf/unwind ./ebpf/ehframe

race: ## run the packages' tests under the race detector
	integration/packages race
	go test -race -count=1 -timeout 20m $(UNIT)

fuzz: ## fuzz each reader of foreign bytes for FUZZTIME (20s)
	@for package in $(UNIT); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzzminimizetime 10x -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

bench: ## run the benchmarks, six times, as benchstat wants them, and the one of the whole profiler; needs root
	go test -run '^$$' -bench . -benchmem -count 6 $(UNIT)
	integration/packages bench
	go run ./integration/bench
	go run ./integration/dwarfbench $(DWARF)

bench-peer: ## compare the whole profiler with the one at PEER, in alternation; needs root
	@[ -x "$(PEER)" ] || { echo "make bench-peer: PEER=/path/to/ebpf-profiler is missing" >&2; exit 1; }
	integration/packages bench
	go run ./integration/bench -peer $(PEER)

resident: ## show the unwind rows in memory and the heap, under clang and chromium, beside what whole tables take; needs root
	integration/packages bench
	go run ./integration/bench -resident

generate: ## compile bpf/ into ebpf/kernel with clang-19
	integration/packages generate
	go generate ./ebpf/kernel

check: ## formatting, vet, arm64, and that the BPF objects are those of bpf/
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted by gofmt:" $$unformatted >&2; exit 1; }
	go vet ./...
	GOARCH=arm64 go build -buildvcs=false ./...
	integration/reproducible

grafana-agent-flow: ## build ./grafana-agent-flow: the real Grafana Agent with our pyroscope.ebpf
	cd integration/agent && ./run-go build $(if $(ALL),-tags allcomponents) -o ../../grafana-agent-flow ./cmd/grafana-agent-flow

agent-test: pyroscope grafana-agent-flow ## compare runtime and component with those of the real Grafana Agent; needs root
	cd integration/agent && ./run-go test -count=1 -timeout 30m -parallel 32 ./... $(if $(UPDATE),-update)
	integration/packages test
	REQUIRE_KERNEL=1 HEADWATER_AGENT=$(CURDIR)/grafana-agent-flow go test -count=1 -timeout 30m -v -run '^TestBothHosts$$' ./integration

kernel-test: ## load and run the BPF programs on kernels 5.10 to 7.2, on amd64 and arm64, emulated
	integration/packages kernels
	go run ./integration/kernels
	go run ./integration/kernels -package ./ebpf -run TestSignalFrames

kubernetes-test: pyroscope ## profile pods of a real kube-apiserver, which it builds from Go modules in 10 minutes or more; needs root
	integration/packages test
	cd integration/kubeapiserver && go run . env -C $(CURDIR) REQUIRE_KERNEL=1 go test -count=1 -timeout 30m -v -run '^TestKubernetes$$' ./integration

verify-mixed: build ## compare stacks with full CFI for LOAD_SECONDS (60) under each of three sets of programs; needs root
	integration/packages load
	./headwater verify --duration $$(($(LOAD_SECONDS) + 30))s -- integration/load mixed $(LOAD_SECONDS)
	./headwater verify --duration $$(($(LOAD_SECONDS) + 30))s -- integration/load other $(LOAD_SECONDS)
	./headwater verify --duration $$(($(LOAD_SECONDS) + 30))s -- integration/load fresh $(LOAD_SECONDS)

crash: ## kill a process with a queue of profiles CRASHES (200) times and see that none is lost
	HEADWATER_CRASHES=$(CRASHES) go test -count=1 -timeout 0 -v -run '^TestCrash$$' ./component/pyroscope/write

outage: pyroscope ## profile at 100 Hz while Pyroscope is away for OUTAGE (10m) and see that all arrives; needs root
	integration/packages test
	REQUIRE_KERNEL=1 HEADWATER_OUTAGE=$(OUTAGE) go test -count=1 -timeout 0 -v -run '^TestLosslessOutage$$' ./integration

named-share: ## show which share of the frames of stripped programs has a name, next to perf's; needs root
	integration/packages test
	HEADWATER_PERF=1 go test -count=1 -timeout 0 -v -run '^TestNamedShare$$' ./integration

soak: pyroscope ## run the profiler for SOAK (10m) and see that it levels off; needs root
	integration/packages test
	REQUIRE_KERNEL=1 HEADWATER_SOAK=$(SOAK) go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./integration

fmt: ## format the Go files
	gofmt -w .

# The server is built before the tests, for go test would hold back the progress that is shown.
pyroscope:
	@[ -n "$$HEADWATER_PYROSCOPE" ] || integration/pyroscope/build >/dev/null
