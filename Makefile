# SPDX-License-Identifier: Apache-2.0

GO      ?= go
# The library and its programs need no C compiler, whatever is installed.
export CGO_ENABLED ?= 0

RDMAVM  := bin/rdmavm
CMDS    := $(addprefix bin/,rping ucmatose rdma_client rdma_server cmtime udaddy mckey rdmadoctor rdmaperf rdmavm \
           ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong ibv_devinfo ibv_asyncwatch)
# Where make demo runs: vm or host.
WHERE   ?= vm
# How long make fuzz runs each fuzz test.
FUZZTIME ?= 10s
# How often it tries to make an input that it keeps smaller. Go's limit is a minute for each,
# which would be all of the time where an input is thousands of bytes.
MINIMIZE := 20x
# Systems that everything must compile for, beside this one.
CROSS   := linux/arm64 linux/riscv64 linux/386 darwin/arm64 windows/amd64
# The C programs that ours are held against, as Debian packages.
PEERS   := rdmacm-utils,ibverbs-utils,ibverbs-providers
BENCH_C := $(PEERS),perftest,libibverbs-dev,librdmacm-dev
# What make bench runs in. 1 GiB is registered. Without the parameter, which rdmavm adds
# itself where this machine's clock is the same, an emulated processor has no clock that a
# program can read without a system call, and perftest's times are wrong.
BENCHVM ?= -append tsc=reliable -kernel $(or $(KERNEL),6.1) -driver $(or $(DRIVER),rxe) -memory 3072 -timeout 0

# The kernels of make matrix, the oldest first. make test has the first and the last.
KERNELS ?= 6.1 6.12 7
OLDEST  := $(firstword $(KERNELS))
NEWEST  := $(lastword $(KERNELS))
# Where rdmavm keeps kernels: the types of drivers that are not loaded are there.
BTF_MODULES ?= $(or $(RDMAVM_CACHE),$(HOME)/.cache/rdmavm)/kernel

# Tests that wait for the kernel's connection manager to give up, which takes
# minutes: only "make matrix" runs them.
SLOW := '^TestSlow'

# How long make soak runs on each driver, and the kernels that it does so on.
SOAK    ?= 10m
SOAK_KERNELS ?= 6.1 7

.PHONY: help build test unit vm matrix test-mlx5 matrix-mlx5 diff-mlx5 soak race test-arm64 lint cross fuzz abi addrinfo oracle oracle-vectors mutate mutate-mlx5 demo bench bench-mlx5 clean FORCE
.DEFAULT_GOAL := help

help: ## show this
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

build: $(CMDS) ## build the commands into bin/

bin/%: FORCE
	$(GO) build -trimpath -ldflags '-s -w' -o $@ ./$(firstword $(wildcard cmd/$* test/$*))

# What takes longest, and what is the same for each processor, has been run by unit.
# Other systems are make lint's.
test: ARM64FLAGS := -short -skip '^TestVectorsCover$$'
test: unit test-arm64 vm ## run the tests: on this machine, for arm64, and in the virtual machine (matrix has the rest)

unit: ## run the tests that need no RDMA
	$(GO) test ./...

# What runs tests in the virtual machine on the kernel $(1) and the driver $(2).
RUN = bin/run -rdmavm $(RDMAVM) -rping bin/rping -packages $(PEERS) -rounds 2 -vm "-kernel $(1) -driver $(2)"
# What compares the types of the kernel $(1) with ours.
TYPES = $(RDMAVM) -kernel $(1) -hosts 2 -- bin/btf.test -test.v -modules $(BTF_MODULES)

# make test has four rows: the oldest and the newest kernel, with each driver. What
# depends on the kernel and its driver runs in all of them.
EVERYWHERE := ./cm ./verbs ./provider/... ./ucma ./uverbs ./oob ./internal/... ./test/wire

# The programs against rdma-core's take as long again, and run once on each driver. On
# siw they do so on the oldest kernel: the fault of its listener, which programs come
# upon, ends the newest (docs/driver-faults.md). The row of rxe that has not them has the
# minute of the soak. The other one has all else, so that no package is forgotten.
vm: $(CMDS) bin/run bin/btf.test ## run the tests that need RDMA, in the virtual machine, on the oldest and the newest of KERNELS with rxe and siw
	@echo '== Linux $(OLDEST), rxe: what depends on the kernel, and the soak'
	@$(call RUN,$(OLDEST),rxe) -timeout 10m -skip $(SLOW) $(EVERYWHERE) ./test/soak
	@echo '== Linux $(OLDEST), siw: what depends on the kernel, and the programs'
	@$(call RUN,$(OLDEST),siw) -timeout 10m -skip $(SLOW) $(EVERYWHERE) ./test/interop
	@echo '== Linux $(NEWEST), rxe: all but the soak'
	@$(call RUN,$(NEWEST),rxe) -timeout 10m -skip $(SLOW)'|^TestSoak'
	@echo '== Linux $(NEWEST), siw: what depends on the kernel'
	@$(call RUN,$(NEWEST),siw) -timeout 10m -skip $(SLOW) $(EVERYWHERE)
	@echo '== types of Linux $(OLDEST) and $(NEWEST)'
	@$(call TYPES,$(OLDEST))
	@$(call TYPES,$(NEWEST))
	@echo 'rping where there is no other file:'
	@out=$$($(RDMAVM) -root none -- bin/rping -c -a 10.8.0.1 -C 1 2>&1); st=$$?; echo "$$out"; \
		[ $$st = 255 ] && echo "$$out" | grep -q '^cma event RDMA_CM_EVENT_REJECTED, error 8$$' || \
		{ echo "FAIL: status $$st; nobody listens, it should have been refused" >&2; exit 1; }

# It takes more than an hour, so a row that fails does not keep the others from running.
matrix: $(CMDS) bin/run bin/btf.test ## run the tests that need RDMA on each kernel of KERNELS, and compare their types
	@failed=; for k in $(KERNELS); do \
		for d in rxe siw; do \
			echo "== Linux $$k, $$d"; \
			$(call RUN,$$k,$$d) -timeout 20m || failed="$$failed; Linux $$k, $$d"; \
		done; \
		echo "== Linux $$k, types"; \
		$(call TYPES,$$k) || failed="$$failed; Linux $$k, types"; \
	done; [ -z "$$failed" ] || { echo "FAIL: $${failed#; }" >&2; exit 1; }

# What runs on the software ConnectX: rdma-core's programs, which say whether the
# device is right, and then ours.
MLX5_TESTS ?= ./test/connectx/faults ./test/connectx/libmlx5 ./verbs ./cm ./oob ./ucma
# Debian releases whose rdma-core make matrix-mlx5 runs, too, beside this machine's. The
# cmtime of 65 has other options.
NEWER   ?= trixie sid

test-mlx5: $(CMDS) bin/run ## run rdma-core's programs, and ours, on a software ConnectX under the kernel's own drivers, on each kernel of KERNELS
	@for k in $(KERNELS); do \
		echo "== Linux $$k, mlx5"; \
		bin/run -rdmavm $(RDMAVM) -rping bin/rping -packages $(PEERS),perftest -timeout 10m -rounds 2 -skip $(SLOW) -vm "-kernel $$k -driver mlx5" $(MLX5_TESTS) || exit 1; \
	done

matrix-mlx5: $(CMDS) bin/run ## run all tests that need RDMA on a software ConnectX, on each kernel of KERNELS, rdma-core and ours between two VMs, and rdma-core of NEWER
	@for k in $(KERNELS); do \
		echo "== Linux $$k, mlx5"; \
		bin/run -rdmavm $(RDMAVM) -rping bin/rping -packages $(PEERS),perftest -timeout 20m -rounds 2 -vm "-kernel $$k -driver mlx5" || exit 1; \
		$(RDMAVM) -kernel $$k -driver mlx5 -hosts 2 -vms -packages $(PEERS),perftest -- sh test/connectx/libmlx5/twovms.sh '' $(CURDIR)/bin/ || exit 1; \
	done
	@for r in $(NEWER); do \
		echo "== rdma-core of Debian $$r, mlx5"; \
		bin/run -rdmavm $(RDMAVM) -rping bin/rping -packages $(PEERS),perftest -timeout 20m -rounds 2 -skip '^TestCM$$/^cmtime' -vm "-kernel $(lastword $(KERNELS)) -driver mlx5 -release $$r" ./test/connectx/libmlx5 || exit 1; \
	done

diff-mlx5: $(CMDS) ## libmlx5 and ours give a software ConnectX the same to do: the pingpong programs of both
	$(RDMAVM) -driver mlx5 -hosts 2 -packages $(PEERS) -trace bin/mlx5.trace -- sh test/connectx/tracediff/pingpong.sh ibv_ $(CURDIR)/bin/ibv_
	$(GO) run ./test/connectx/tracediff/halves bin/mlx5.trace

soak: $(RDMAVM) bin/run bin/rping ## run random traffic for SOAK on each driver: nothing may be lost, changed or left
	@for k in $(SOAK_KERNELS); do for d in rxe siw; do \
		echo "== Linux $$k, $$d"; \
		bin/run -rdmavm $(RDMAVM) -rping bin/rping -timeout 1h -vm "-kernel $$k -driver $$d -timeout 1h" \
			-run '^TestSoak$$' -args '-soak $(SOAK) $(SOAKFLAGS)' ./test/soak || exit 1; \
	done; done

abi: ## measure the kernel's headers again: a difference is shown, and fails
	$(GO) run ./test/abi/gen
	git diff --exit-code -- abi/testdata test/abi/mirrors

addrinfo: $(RDMAVM) ## record librdmacm's look-ups again: a difference is shown, and fails
	$(GO) run ./test/addrinfo/gen
	git diff --exit-code -- cm/testdata

oracle: ## have rdma-core's providers make the vectors again: a difference is shown, and fails
	$(GO) run ./test/oracle
	git diff --exit-code --stat -- 'provider/*/testdata'

# For oracle-vectors.
SEED    ?= 2
N       ?= 2000
OUT     ?= vectors.jsonl.gz
RELEASE ?= sid

oracle-vectors: ## fresh vectors: SEED, N, OUT, DRIVER, RELEASE; check them with go test ./provider/mlx5 -run Vectors -vectors OUT
	$(GO) run ./test/oracle -driver $(or $(DRIVER),mlx5) -release $(RELEASE) -seed $(SEED) -n $(N) -out $(OUT)

mutate: ## show that the tests of abi see changes of one byte
	$(GO) run ./test/abi/mutate

mutate-mlx5: ## show which small changes of provider/mlx5 its tests see: MUTATEFLAGS='-seed 2 -n 100'
	$(GO) run ./test/mutate-mlx5 $(MUTATEFLAGS)

# What has assembly, or is close to what has.
ARM64 := ./internal/mmio ./provider/...

test-arm64: bin/arm64 ## run the tests of what is close to the processor, built for arm64, in QEMU's emulator of programs
	GOARCH=arm64 CGO_ENABLED=0 $(GO) test -exec $(CURDIR)/bin/arm64 $(ARM64FLAGS) $(ARM64)

race: $(CMDS) bin/run ## run all tests with the race detector (needs a C compiler)
	@command -v gcc >/dev/null || command -v $${CC:-cc} >/dev/null || { echo 'make race: the race detector needs a C compiler: apt-get install gcc libc6-dev' >&2; exit 1; }
	CGO_ENABLED=1 $(GO) test -race -short ./...
	mkdir -p bin/race
	CGO_ENABLED=1 $(GO) build -race -o bin/race $(patsubst bin/%,./cmd/%,$(filter-out $(RDMAVM),$(CMDS)))
	CGO_ENABLED=1 bin/run -race -rdmavm $(RDMAVM) -rping bin/race/rping -packages $(PEERS) -timeout 20m -skip $(SLOW)'|^TestSoak$$' -args -test.short

lint: bin/staticcheck cross ## check the form: gofmt, vet, staticcheck, the rules of test/arch
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')) && [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	bin/staticcheck ./...
	cd test/abi/btf && $(GO) vet . && ../../../bin/staticcheck .
	GOOS=darwin bin/staticcheck ./cm ./verbs ./cmd/rping
	$(GO) test -run 'TestImports|TestTable|TestDocuments|TestStranger' ./test/arch

bin/btf.test: FORCE
	$(GO) -C test/abi/btf test -c -o ../../../$@ .

bin/staticcheck: test/tools/go.mod test/tools/go.sum
	$(GO) -C test/tools build -o ../../$@ honnef.co/go/tools/cmd/staticcheck

# As the commands are built: what TestBinaries compiles is then compiled once, and so is
# what another copy of this repository has compiled.
cross: ## compile for other systems
	@for s in $(CROSS); do \
		echo "GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build -trimpath ./..."; \
		GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build -trimpath ./... || exit 1; \
	done

# Up to Go 1.26 a run may end by failing with nothing but the deadline that it had: go.dev/issue/75804.
fuzz: ## run each fuzz test for FUZZTIME
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r f; do \
		for t in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$f"); do \
			set -- -run "^$$t\$$" -fuzz "^$$t\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(MINIMIZE) "$$(dirname "$$f")"; \
			echo "$(GO) test $$*"; \
			out=$$($(GO) test "$$@" 2>&1); st=$$?; echo "$$out"; \
			[ $$st = 0 ] && continue; \
			echo "$$out" | grep -qx '    context deadline exceeded' && ! echo "$$out" | grep -q 'Failing input' || exit 1; \
			echo 'No input failed: the fault is that of go.dev/issue/75804.'; \
		done || exit 1; \
	done

demo: bin/rping bin/demo ## run rping, ours against rdma-core's: in the virtual machine, or with WHERE=host here
	@$(MAKE) --no-print-directory demo-$(WHERE)

.PHONY: demo-vm demo-host
demo-vm: $(RDMAVM)
	@! [ -e /dev/infiniband/rdma_cm ] || echo 'This machine has RDMA itself: to use it, run make demo WHERE=host'
	$(RDMAVM) -hosts 2 -packages $(PEERS) -- bin/demo -rping bin/rping

demo-host:
	bin/demo -rping bin/rping

bench: $(CMDS) bin/bench ## measure against rdma-core's programs, in the virtual machine: DRIVER, KERNEL, BENCHFLAGS=-full
	$(RDMAVM) $(BENCHVM) -hosts 2 -packages $(BENCH_C) -- bin/bench -rping bin/rping $(BENCHFLAGS)

bench-mlx5: ## measure posting and polling against libmlx5, here (needs gcc and valgrind)
	$(GO) run ./test/bench-mlx5 $(BENCHFLAGS)

clean: ## remove what was built
	rm -rf bin
