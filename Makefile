# Headwater. `make help` lists the targets; `make -C integration help` those that measure, or run for long.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build run unit test nightly lint race fuzz bench generate check fresh kernel-test fmt cover release

# The version is git's, unless git refuses to look into a checkout that belongs to somebody else.
STAMP    := $(shell git status --short >/dev/null 2>&1 && echo true || echo false)
# INTEGRATION has the packages that profile this host and nothing else; all others have tests for make unit, too.
INTEGRATION = $(addprefix ./integration/,stacks tools names python java delivery hosts containers page endurance)
UNIT      = $(shell go list ./... | grep -vxF "$$(go list $(INTEGRATION))")
FUZZTIME ?= 20s
ADDRESS  := 127.0.0.1:12345
# Functions begin at multiples of 16 bytes, not 32: there are 80,000, and the gaps between them take 0.6 MB.
LDFLAGS  := -funcalign=16

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@echo "More, which measure or run for long: make -C integration help"

build: ## build ./headwater without symbols (needs Go only: the BPF objects are in the tree)
	@CGO_ENABLED=0 integration/progress -trimpath -buildvcs=$(STAMP) -ldflags="$(LDFLAGS) -s -w" -o headwater .

run: build ## profile this host and serve its flame graphs; needs root
	@[ "$$(id -u)" = 0 ] || { echo "make run: profiling needs root" >&2; exit 1; }
	@echo "The flame graph page: http://$(ADDRESS)/api/v0/component/pyroscope.ebpf.host/    (Ctrl-C ends)"
	./headwater run --server.http.listen-addr=$(ADDRESS) river/examples/quickstart.river

unit: ## run the tests that need neither root nor packages nor the network, in two minutes
	CGO_ENABLED=0 GOFLAGS=-trimpath HEADWATER_UNIT=1 go test -timeout 10m -skip '^TestAdding$$' $(UNIT) # which builds copies of the tree for a minute
	CGO_ENABLED=0 GOFLAGS=-trimpath HEADWATER_UNIT=1 go test -C integration/lab -timeout 10m ./...

test: build ## run the tests of each change, with the real kernel, Pyroscope and a browser, in 14 minutes; needs root
	@$(MAKE) --no-print-directory -C integration pyroscope
	@integration/packages test
	@integration/run-tests test

nightly: build ## run all other tests: more programs, versions, faults and time, in 75 minutes; needs root
	@$(MAKE) --no-print-directory -C integration pyroscope
	@integration/packages test nightly
	@integration/run-tests nightly

lint: ## check formatting, words, links and line lengths; with golangci-lint and clang-format-19 where they are installed
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted by gofmt:" $$unformatted >&2; exit 1; }
	go vet ./...
	go vet -C integration/lab ./...
	HEADWATER_LINT=1 go test ./integration/docs ./integration/testkit/need
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; else echo "lint: golangci-lint is not installed: left out"; fi
	@if command -v clang-format-19 >/dev/null; then clang-format-19 --dry-run -Werror bpf/*/*.h bpf/*.c; else echo "lint: clang-format-19 is not installed: left out"; fi

race: ## run the packages' tests under the race detector
	integration/packages race
	go test -race -count=1 -timeout 20m $(UNIT)

fuzz: ## fuzz each reader of foreign bytes for FUZZTIME (20s)
	@for package in $(UNIT); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzzminimizetime 10x -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

bench: ## run the benchmarks six times, as benchstat wants them, and the one of the whole profiler; needs root
	go test -run '^$$' -bench . -benchmem -count 6 $(UNIT)
	@$(MAKE) --no-print-directory -C integration bench

generate: ## compile bpf/ into ebpf/kernel with clang-19
	integration/packages generate
	go generate ./ebpf/kernel

check: ## check formatting, vet, arm64, and that the BPF objects are those of bpf/
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted by gofmt:" $$unformatted >&2; exit 1; }
	go vet ./...
	go vet -C integration/lab ./...
	GOARCH=arm64 go build -buildvcs=false ./...
	integration/reproducible

fresh: ## run both commands of the README on a bare Debian with this Go, 15 to 40 minutes; needs root
	integration/fresh

kernel-test: ## load and run the BPF programs on kernels 5.10 to 7.2, on amd64 and arm64, emulated
	integration/packages kernels
	go run ./integration/kernels
	go run ./integration/kernels -package ./ebpf -run "TestSignalFrames|TestWaitsOfGo"
	go run ./integration/kernels -cpus 2 -cells 6.12/amd64,6.12/arm64 -package ./ebpf/sampler -run TestCPUGoesOffline

fmt: ## format the Go files
	gofmt -w .

cover: ## show which part of each package the unit tests run, and write cover.html
	HEADWATER_UNIT=1 go test -timeout 20m -coverprofile=cover.out $(UNIT)
	go tool cover -html=cover.out -o cover.html

# Both have one build ID, by which debuggers find the second for the first. It is made from what was compiled.
release: BUILD_ID = $(shell CGO_ENABLED=0 go list -trimpath -export -f '{{.BuildID}}' . | sha1sum | cut -c1-40)
release: ## build ./headwater, and the same program with its symbols and DWARF data as ./headwater.debug
	@CGO_ENABLED=0 integration/progress -trimpath -buildvcs=$(STAMP) -ldflags="$(LDFLAGS) -s -w -B 0x$(BUILD_ID)" -o headwater .
	@CGO_ENABLED=0 integration/progress -trimpath -buildvcs=$(STAMP) -ldflags="$(LDFLAGS) -B 0x$(BUILD_ID)" -o headwater.debug .
	@ls -l headwater headwater.debug
