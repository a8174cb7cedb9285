# SPDX-License-Identifier: Apache-2.0

GO      ?= go
# The library and its programs need no C compiler, whatever is installed.
export CGO_ENABLED ?= 0

RDMAVM  := bin/rdmavm
CMDS    := $(addprefix bin/,rping rstream riostream rcopy ucmatose rdma_client rdma_server cmtime udaddy mckey rdmadoctor rdmahw rdmaperf rdmavm \
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
# The C programs that ours are held against, as Debian packages. From netcat on they run under librspreload.
# iproute2 has rdma.
PEERS   := rdmacm-utils,ibverbs-utils,ibverbs-providers,iproute2,netcat-traditional,ncat,curl,wget,socat,weborf,merecat,tinyproxy-bin
BENCH_C := $(PEERS),perftest,libibverbs-dev,librdmacm-dev
# What make bench runs in. 1 GiB is registered. Without the parameter, which rdmavm adds
# itself where this machine's clock is the same, an emulated processor has no clock that a
# program can read without a system call, and perftest's times are wrong.
BENCHVM ?= -append tsc=reliable -modules sch_netem -kernel $(or $(KERNEL),6.1) -driver $(or $(DRIVER),rxe) -memory 3072 -timeout 0

# The kernels of make matrix, the oldest first. make test has the first and the last.
KERNELS ?= 6.1 6.12 7
OLDEST  := $(firstword $(KERNELS))
NEWEST  := $(lastword $(KERNELS))
# make test V=1 shows the whole output of all tests.
V       ?=
# Where rdmavm keeps kernels: the types of drivers that are not loaded are there.
BTF_MODULES ?= $(or $(RDMAVM_CACHE),$(HOME)/.cache/rdmavm)/kernel

# How long make soak runs on each driver, and the kernels that it does so on.
SOAK    ?= 10m
SOAK_KERNELS ?= 6.1 7

.PHONY: faults help build test test-two-vms test-ci test-streams test-all unit matrix test-mlx5 matrix-mlx5 test-erdma test-bnxt_re matrix-arm64 diff-mlx5 soak race race-host test-arm64 lint prose cross fuzz abi api litmus module release vulncheck docs addrinfo oracle oracle-vectors mutate mutate-mlx5 mutate-erdma mutate-bnxt_re demo bench bench-mlx5 bench-erdma bench-bnxt_re clean FORCE
.DEFAULT_GOAL := help

help: ## show this
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

build: $(CMDS) ## build the commands into bin/

# The commands that build a program are printed with V=1 only.
QUIET = $(if $(V),,@)

bin/%: FORCE
	$(QUIET)$(GO) build -trimpath -ldflags '-s -w' -o $@ ./$(firstword $(wildcard cmd/$* test/$*))

# gRPC's benchmark, of a module of its own.
bin/grpcperf: FORCE
	$(QUIET)$(GO) -C test/nettest/grpc build -trimpath -ldflags '-s -w' -o ../../../$@ ./grpcperf

# bin/run runs rows of tests and counts them together: each row stands after a "--"
# (go doc ./test/run). -estimate is how long a row takes on two processors that do
# nothing else; the time left is reckoned by it.
RUN  = bin/run -rdmavm $(RDMAVM) -rping bin/rping -packages $(PEERS) $(if $(V),-v)
TOOLS = $(CMDS) bin/run bin/btf.test bin/arm64
# The virtual machine with the kernel $(1) and the driver $(2).
VM   = -vm "-kernel $(1) -driver $(2)"
# The types of its kernel are compared with those of package abi.
TYPES = -also "bin/btf.test -modules $(BTF_MODULES)"

# What depends on the kernel and its driver, rather than on programs.
EVERYWHERE := ./cm ./verbs ./pool ./provider/... ./rdmanl ./ucma ./uverbs ./oob ./internal/... ./test/wire
# Tests of these packages that use no kernel: they run on this machine.
NO_KERNEL  := ^Test(Model|EveryWaitEnds|AddressAtItsLimit|CallsAtOnce|AnyEventAnyTime|Vectors.*|WokenLetsOthersRun|LargestQueues|EachCommandFails|Random|RandomUse|SpuriousEvents|PollDuringRemoval|AcceptAllocations|CancelledSend.*|CancelledDialsAreBounded|EveryCallInEveryState|.*WaitersStress|DispatchStress|CloseBehind.*|CloseOrders|CloseAfterRemoval|AcceptOutOfDescriptors|RequestByAnUnusableDevice|BuffersOfALateRequest|CloseDuringExpiry|ClientsDoNotShareMemory|KeyEndsWithTheRequest|PollLetsOthersRun|UnreferencedMemoryStays)$$
# The slowest tests. make test-ci runs them, as it does test/wire, which takes long and depends
# on rdma-core rather than on the kernel.
SLOWEST    := ^Test(CloseWhileUsed|CommandKeepsHandle|GarbageInRequestsAndAnswers|DatagramGarbage|IdleConnections|CancelledAtEachCrossing|DatagramCancelledAtEachCrossing)$$
# The core of a driver that is not rxe: connections of all kinds and their ends, and the
# data path.
CORE_SIW   := ./cm ./verbs
CORE_MLX5  := ./cm ./verbs
CORE_TESTS := '^Test(Echo|Example|IWARP|Provider|UseAfterClose|Conn|Dial|Listen|Peer|Send|Remote|Batch|Flush|VM)'

# What has assembly, or is close to what has.
ARM64 := ./internal/mmio ./provider/...
# TestVectorsCover takes longest and is the same for each processor. TestDisassembly
# compiles the standard library, and is one of the long tests of this machine.
HOST_ROW  := -name 'this machine' -host -estimate 50s ./...
ARM64_ROW := -name 'arm64, emulated' -host -env GOARCH=arm64 -exec $(CURDIR)/bin/arm64 -skip '^(TestVectorsCover|TestDisassembly)$$' -estimate 30s $(ARM64)

# At most ten minutes on two processors.
TEST_ROWS = $(HOST_ROW) \
	-- $(ARM64_ROW) \
	-- $(call VM,$(OLDEST),rxe) -skip '$(NO_KERNEL)|$(SLOWEST)' -estimate 90s $(filter-out ./test/wire,$(EVERYWHERE)) \
	-- $(call VM,$(NEWEST),rxe) $(TYPES) -skip '$(NO_KERNEL)|$(SLOWEST)' -estimate 120s $(filter-out ./test/wire,$(EVERYWHERE)) \
	-- $(call VM,$(OLDEST),siw) -name 'Linux $(OLDEST), siw: core' -run $(CORE_TESTS) -estimate 60s $(CORE_SIW) \
	-- $(call VM,$(NEWEST),mlx5) -name 'Linux $(NEWEST), mlx5: core' -run $(CORE_TESTS) -estimate 60s $(CORE_MLX5)

test: $(TOOLS) ## run the tests: on this machine, for arm64, and in the virtual machine on the oldest and the newest of KERNELS (V=1 shows all; test-all has the rest)
	@$(RUN) -- $(TEST_ROWS)

unit: bin/run ## run the tests that need no RDMA
	@$(RUN) -- $(HOST_ROW)

# Packages of connections between programs, on top of cm and verbs.
STREAMS := ./stream ./rsocket ./msg
# Suites of others for net.Conn and for programs on it, each in a module of its own.
SUITES := ./test/nettest ./test/nettest/grpc ./test/nettest/grpc/grpcperf ./test/nettest/database
# Without the database servers, whose start takes minutes on an emulated processor.
CI_SUITES := $(filter-out %/database,$(SUITES))
# The servers for test/nettest/database, as Debian packages.
SERVERS := redis-server,postgresql
# The collector for Prometheus, a module of its own, too.
SUITES_ROW = -host -name "suites of others, Prometheus" -estimate 60s $(SUITES) ./prometheus
# Tests between two devices of the packages $(3), with the kernel $(1) and the driver $(2).
STREAM_ROW = $(call VM,$(1),$(2)) -name 'Linux $(1), $(2): streams' $(if $(filter %/database,$(3)),-packages $(PEERS)$(comma)$(SERVERS)) -run '^TestVM' -estimate 3m $(3)

# The long form of the suites: with the race detector, where the suite for net.Conn runs a hundred times, and with bodies
# of 1 GiB. One kernel for each driver is enough, because the suites use nothing that depends on the kernel. gRPC's soak
# keeps 400 connections open, and with the race detector the default memory is not enough for them.
STREAM_LONG_ROW = -vm "-kernel $(OLDEST) -driver $(1) -memory 4096" -name 'Linux $(OLDEST), $(1): streams, race detector' -packages $(PEERS),$(SERVERS) -race -long -timeout 60m -run '^TestVM' -estimate 15m $(SUITES) \
	-- $(call VM,$(OLDEST),$(1)) -name 'Linux $(OLDEST), $(1): bodies of 1 GiB' -long -timeout 60m -run '$(LARGE)' -estimate 10m ./stream
STREAM_LONG_ROWS = $(foreach d,$(or $(DRIVER),rxe siw mlx5),-- $(call STREAM_LONG_ROW,$(d)))
# The test with bodies of 1 GiB, for which an emulated processor needs minutes.
LARGE := ^TestVMHTTP$$

# The programs on streams between two virtual machines, with the server in one and the client in the other: net/http,
# net/rpc, crypto/tls, gRPC's interoperability tests and its benchmark, clients of databases, and the suite of
# golang.org/x/net by a relay. They are the tests that also run in one virtual machine (internal/vmtest, Sides).
TWO_VMS     = $(addprefix bin/two-vms/,stream.test nettest.test grpc.test grpcperf.test database.test)
TWO_VMS_ROW = -check -name 'Linux $(1), $(2): streams between two virtual machines' -estimate 3m $(RDMAVM) -kernel $(1) -driver $(2) -hosts 2 -vms -timeout 20m -packages $(SERVERS) \
	sh test/nettest/twovms.sh $(TWO_VMS)
# "rdmahw serve" in one virtual machine, and "rdmahw run -peer" in the other.
TWO_VMS_HW     = bin/two-vms/rdmahw.test
TWO_VMS_HW_ROW = -check -name 'Linux $(1), $(2): rdmahw between two virtual machines' -estimate 2m $(RDMAVM) -kernel $(1) -driver $(2) -hosts 2 -vms -timeout 20m \
	sh cmd/rdmahw/twovms.sh $(TWO_VMS_HW) $(CURDIR)/bin/rdmahw

.PHONY: two-vms
two-vms: $(TWO_VMS) $(TWO_VMS_HW)
bin/two-vms/stream.test: FORCE
	$(GO) test -c -o $@ ./stream
bin/two-vms/nettest.test: FORCE
	$(GO) -C test/nettest test -c -o ../../$@ .
bin/two-vms/grpc.test: FORCE
	$(GO) -C test/nettest/grpc test -c -o ../../../$@ .
bin/two-vms/grpcperf.test: FORCE
	$(GO) -C test/nettest/grpc test -c -o ../../../$@ ./grpcperf
bin/two-vms/database.test: FORCE
	$(GO) -C test/nettest/database test -c -o ../../../$@ .
bin/two-vms/rdmahw.test: FORCE
	$(GO) test -c -o $@ ./cmd/rdmahw

# What continuous integration runs beside the rows of make test.
CI_ROWS = $(RACE_HOST_ROW) \
	-- $(SUITES_ROW) \
	-- $(call STREAM_ROW,$(OLDEST),rxe,$(STREAMS) $(CI_SUITES)) \
	-- $(call STREAM_ROW,$(NEWEST),mlx5,$(STREAMS) $(CI_SUITES)) \
	-- $(call STREAM_ROW,$(OLDEST),siw,$(STREAMS)) \
	-- $(call VM,$(OLDEST),rxe) -name 'Linux $(OLDEST), rxe: rsockets of rdma-core' -run '^Test(Streams|Rcopy|Preload.*)$$' -estimate 90s ./test/interop \
	-- $(ALONE_ROW) \
	-- $(call VM,$(OLDEST),rxe) -name 'Linux $(OLDEST), rxe: the slowest' -run '$(SLOWEST)' -estimate 90s $(EVERYWHERE) \
	-- $(call VM,$(NEWEST),rxe) -name 'Linux $(NEWEST), rxe: the slowest' -run '$(SLOWEST)' -estimate 90s $(EVERYWHERE) \
	-- $(call VM,$(NEWEST),rxe) -name 'Linux $(NEWEST), rxe: test/wire' -estimate 50s ./test/wire \
	-- $(call VM,$(OLDEST),rxe) $(TYPES) -name 'Linux $(OLDEST), rxe: test/wire and types' -estimate 50s ./test/wire

# The oldest kernel that is supported (verbs.MinKernel), and the tests that its drivers pass: connections
# and RC. Its rxe has no memory windows, and faults of its own (docs/reference/driver-faults.md).
MINIMUM       := 5.10
MINIMUM_TESTS := '^Test(Echo|WildcardListener.*|EventRejected|EventsOfAConnection|VM(Async.*|CreateCQ|ShrinkCQ|TwoRegistrations|LostAnswers|Reregister|HugePages|PKey|NoDMABuf|Features))$$'

# The rest: the long tests of this machine, all of siw and mlx5, the programs against
# rdma-core's, a minute of the soak, the fuzz tests. On siw the programs run on the oldest kernel only: the
# fault of its listener, which programs come upon, ends the newest (docs/reference/driver-faults.md).
REST_ROWS = -name 'this machine, long tests' -host -long -timeout 20m -estimate 12m ./... $(SUITES) \
	-- -name 'this machine, random use with the race detector' -host -race -long -env CGO_ENABLED=1 -run '^TestRandomUse$$' -timeout 30m -estimate 8m ./verbs ./cm/cmtest \
	-- $(call STREAM_ROW,$(OLDEST),siw,$(SUITES)) \
	-- $(call VM,$(OLDEST),rxe) -name 'Linux $(OLDEST), rxe: the soak' -args '-soak 1m' -run '^TestSoak$$' -estimate 90s ./test/soak \
	-- $(call VM,$(MINIMUM),rxe) -name 'Linux $(MINIMUM), rxe: core' -run $(MINIMUM_TESTS) -estimate 60s ./cm ./verbs \
	-- $(call VM,$(MINIMUM),mlx5) -name 'Linux $(MINIMUM), mlx5: core' -run $(MINIMUM_TESTS) -estimate 60s ./cm ./verbs \
	-- $(call VM,$(NEWEST),rxe) -name 'Linux $(NEWEST), rxe: programs' -skip '^TestSoak$$' -estimate 3m $(PROGRAMS) \
	-- $(call VM,$(OLDEST),siw) $(TYPES) -skip '$(NO_KERNEL)' -estimate 5m $(EVERYWHERE) ./test/interop \
	-- $(call VM,$(NEWEST),siw) $(TYPES) -skip '$(NO_KERNEL)' -estimate 3m $(EVERYWHERE) \
	-- $(call VM,$(NEWEST),mlx5) -skip '$(NO_KERNEL)' -packages $(PEERS),perftest -estimate 4m $(MLX5_TESTS) \
	-- $(FUZZ_ROW)
# Each fuzz test for some seconds. The recipe of a target that names $$(MAKE) runs with -n, too.
FUZZ_ROW = -check -name 'fuzz tests' -estimate 12m env MAKEFLAGS= make --no-print-directory fuzz FUZZTIME=5s
# All packages but those of EVERYWHERE, so that none is forgotten.
PROGRAMS = $(filter-out $(shell $(GO) list $(EVERYWHERE)),$(shell $(GO) list ./...))

# Nobody listens, so that rping is refused.
ALONE_ROW = -check -name 'rping where there is no other file' -estimate 10s sh -c 'out=$$($(RDMAVM) -root none -- bin/rping -c -a 10.8.0.1 -C 1 2>&1); st=$$?; echo "$$out"; \
	[ $$st = 255 ] && echo "$$out" | grep -q "^cma event RDMA_CM_EVENT_REJECTED, error 8$$"'

test-two-vms: $(TOOLS) $(TWO_VMS) $(TWO_VMS_HW) ## run the programs on streams, and rdmahw, between two virtual machines: DRIVER, KERNEL
	@$(RUN) -- $(call TWO_VMS_ROW,$(or $(KERNEL),$(OLDEST)),$(or $(DRIVER),rxe)) \
	-- $(call TWO_VMS_HW_ROW,$(or $(KERNEL),$(OLDEST)),$(or $(DRIVER),rxe))

test-streams: $(TOOLS) compiler ## run the suites for net.Conn with the race detector, a hundred times, and with bodies of 1 GiB, on rxe, siw and mlx5 (about an hour): DRIVER=rxe
	@$(RUN) $(STREAM_LONG_ROWS)

test-ci: $(TOOLS) compiler ## run the tests of continuous integration: those of test, the race detector on this machine, the slowest tests and test/wire
	@$(RUN) -- $(TEST_ROWS) -- $(CI_ROWS)

# Each kernel with each driver. The long tests run on the newest kernel. There, siw often keeps the first
# message of a connection, also of rdma-core's programs, so they do not run.
LONG         = $(if $(filter $(NEWEST),$(1)),-long)
MATRIX_TESTS = $(if $(filter $(NEWEST)siw,$(1)$(2)),$(filter-out %/test/interop,$(shell $(GO) list ./...)),./...)
MATRIX_ROWS = $(foreach k,$(KERNELS),$(foreach d,rxe siw,-- $(call VM,$(k),$(d)) $(TYPES) -packages $(PEERS),perftest -skip '$(NO_KERNEL)|$(LARGE)' $(call LONG,$(k)) -timeout 1h -estimate 10m $(call MATRIX_TESTS,$(k),$(d)) \
	-- $(call STREAM_ROW,$(k),$(d),$(SUITES)))) \
	$(foreach d,rxe siw,-- $(call TWO_VMS_ROW,$(OLDEST),$(d)) -- $(call TWO_VMS_HW_ROW,$(OLDEST),$(d)))

matrix: $(TOOLS) $(TWO_VMS) $(TWO_VMS_HW) compiler ## run the tests that need RDMA on each kernel of KERNELS with rxe and siw, the long ones on the newest, and compare the kernels' types
	@$(RUN) $(MATRIX_ROWS)

# What runs on the software ConnectX: rdma-core's programs, which say whether the
# device is right, and then ours.
MLX5_TESTS ?= ./test/connectx/faults ./test/connectx/libmlx5 ./verbs ./pool ./cm ./oob ./ucma ./rdmanl
# Debian releases whose rdma-core make matrix-mlx5 runs, too, beside this machine's. The
# cmtime of 65 has other options.
NEWER   ?= trixie sid

test-mlx5: $(TOOLS) ## run rdma-core's programs, and ours, on a software ConnectX under the kernel's own drivers, on each kernel of KERNELS
	@$(RUN) -packages $(PEERS),perftest $(foreach k,$(KERNELS),-- $(call VM,$(k),mlx5) -skip '$(NO_KERNEL)' -estimate 4m $(MLX5_TESTS))

MATRIX_MLX5_ROWS = $(foreach k,$(KERNELS),-- $(call VM,$(k),mlx5) -skip '$(NO_KERNEL)|$(LARGE)' -packages $(PEERS),perftest $(call LONG,$(k)) -timeout 1h -estimate 10m ./... \
	-- $(call STREAM_ROW,$(k),mlx5,$(SUITES)) \
	-- -check -name 'Linux $(k), mlx5: two virtual machines' -estimate 2m $(RDMAVM) -kernel $(k) -driver mlx5 -hosts 2 -vms -packages $(PEERS),perftest sh test/connectx/libmlx5/twovms.sh '' $(CURDIR)/bin/) \
	-- $(call TWO_VMS_ROW,$(OLDEST),mlx5) -- $(call TWO_VMS_HW_ROW,$(OLDEST),mlx5) \
	$(foreach r,$(NEWER),-- -name "rdma-core of Debian $(r), mlx5" -vm "-kernel $(NEWEST) -driver mlx5 -release $(r)" -packages $(PEERS),perftest -timeout 20m -skip '^TestCM$$/^cmtime' -estimate 3m ./test/connectx/libmlx5 ./rdmanl)

matrix-mlx5: $(TOOLS) $(TWO_VMS) $(TWO_VMS_HW) compiler ## run all tests that need RDMA on a software ConnectX, on each kernel of KERNELS, the long ones on the newest, rdma-core and ours between two VMs, and rdma-core of NEWER
	@$(RUN) $(MATRIX_MLX5_ROWS)

# The programs of this module with the driver $(1) on the newest kernel, and the pairs with rdma-core's programs.
PROGRAMS_ROW = $(call VM,$(NEWEST),$(1)) -name 'Linux $(NEWEST), $(1): programs' -skip '$(NO_KERNEL)' -packages $(PEERS),perftest -timeout 30m -estimate 12m ./test/interop ./cmd/... ./examples/...

# What runs on the software eRDMA: rdma-core's programs, and then ours.
ERDMA_TESTS ?= ./test/erdma/liberdma ./test/erdma/faults ./verbs ./pool ./cm ./oob ./ucma ./uverbs ./rdmanl
ERDMA_ROWS   = $(foreach k,$(KERNELS),-- $(call VM,$(k),erdma) -skip '$(NO_KERNEL)' -packages $(PEERS),perftest -timeout 20m -estimate 8m $(ERDMA_TESTS) \
	-- $(call STREAM_ROW,$(k),erdma,$(STREAMS) ./test/nettest) \
	-- -check -name 'Linux $(k), erdma: two virtual machines' -estimate 2m $(RDMAVM) -kernel $(k) -driver erdma -hosts 2 -vms -packages $(PEERS),perftest sh test/erdma/liberdma/twovms.sh '' $(CURDIR)/bin/) \
	-- $(call PROGRAMS_ROW,erdma)

test-erdma: $(TOOLS) ## run rdma-core's programs, and ours, on a software eRDMA under the kernel's own driver, on each kernel of KERNELS
	@$(RUN) $(ERDMA_ROWS)

# What runs on the software NetXtreme-E: rdma-core's programs, and then ours. Linux 6.1 of Debian lacks the driver. The
# cmtime of sid has other options.
BNXT_TESTS ?= ./test/netxtreme/libbnxt_re ./test/netxtreme/faults ./verbs ./pool ./cm ./oob ./ucma ./uverbs ./rdmanl
BNXT_ROWS   = $(foreach k,$(filter-out 6.1,$(KERNELS)),-- $(call VM,$(k),bnxt_re) -skip '$(NO_KERNEL)' -packages $(PEERS),perftest -timeout 20m -estimate 8m $(BNXT_TESTS) \
	-- $(call STREAM_ROW,$(k),bnxt_re,$(STREAMS) ./test/nettest) \
	-- -check -name 'Linux $(k), bnxt_re: two virtual machines' -estimate 2m $(RDMAVM) -kernel $(k) -driver bnxt_re -hosts 2 -vms -packages $(PEERS),perftest sh test/netxtreme/libbnxt_re/twovms.sh '' $(CURDIR)/bin/) \
	-- -name 'Linux $(NEWEST), bnxt_re-p7' -vm "-kernel $(NEWEST) -driver bnxt_re-p7 -release sid" -skip '$(NO_KERNEL)|^TestCM$$/^cmtime' -packages $(PEERS),perftest -timeout 20m -estimate 8m $(BNXT_TESTS) \
	-- $(call STREAM_ROW,$(NEWEST),bnxt_re-p7,$(STREAMS) ./test/nettest) \
	-- $(call PROGRAMS_ROW,bnxt_re)

test-bnxt_re: $(TOOLS) ## run rdma-core's programs, and ours, on a software NetXtreme-E under the kernel's own drivers, on each kernel of KERNELS that has them
	@$(RUN) $(BNXT_ROWS)

# Tests in a virtual machine of arm64, by emulation: connections, verbs, the data paths and streams, and
# the demonstration. One kernel has pages of 16 KiB.
ARM64_TESTS   := ./cm ./verbs ./pool ./provider/... ./stream
ARM64_DRIVERS := 6.1/rxe 6.1/siw 6.12-16k/rxe 7/rxe 7/mlx5
ARM64_CMDS    := $(patsubst bin/%,bin/linux-arm64/%,$(filter-out $(RDMAVM),$(CMDS))) bin/linux-arm64/demo
# The virtual machine with the kernel and the driver $(1).
ARM64_VM       = -arch arm64 -kernel $(firstword $(subst /, ,$(1))) -driver $(lastword $(subst /, ,$(1)))
MATRIX_ARM64_ROWS = $(foreach r,$(ARM64_DRIVERS),-- -vm "$(call ARM64_VM,$(r))" -name 'arm64, Linux $(subst /,$(comma) ,$(r))' -env GOARCH=arm64 -exec $(CURDIR)/bin/arm64 -rping bin/linux-arm64/rping \
	-skip '$(NO_KERNEL)|$(LARGE)' -timeout 20m -estimate 10m $(ARM64_TESTS)) \
	-- -check -name 'arm64: the demonstration' -estimate 2m $(RDMAVM) $(call ARM64_VM,$(firstword $(ARM64_DRIVERS))) -hosts 2 -packages $(PEERS) bin/linux-arm64/demo -rping bin/linux-arm64/rping
comma := ,

bin/rdmavm-arm64: FORCE
	$(QUIET)GOARCH=arm64 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./cmd/rdmavm

bin/linux-arm64/%: FORCE
	$(QUIET)GOARCH=arm64 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./$(firstword $(wildcard cmd/$* test/$*))

matrix-arm64: $(TOOLS) bin/rdmavm-arm64 $(ARM64_CMDS) ## run the tests of cm, verbs, the providers and stream, and the demonstration, in virtual machines of arm64
	@$(RUN) $(MATRIX_ARM64_ROWS)

test-all: $(TOOLS) $(TWO_VMS) $(TWO_VMS_HW) compiler race-programs bin/rdmavm-arm64 $(ARM64_CMDS) ## run all tests: those of test, test-ci, matrix, matrix-mlx5, test-erdma, test-bnxt_re, matrix-arm64, race and test-streams (several hours)
	@$(RUN) -- $(TEST_ROWS) -- $(CI_ROWS) -- $(REST_ROWS) $(MATRIX_ROWS) $(MATRIX_MLX5_ROWS) $(ERDMA_ROWS) $(BNXT_ROWS) $(MATRIX_ARM64_ROWS) -- $(RACE_VM_ROW) $(STREAM_LONG_ROWS)

diff-mlx5: $(CMDS) ## libmlx5 and ours give a software ConnectX the same to do: the pingpong programs of both
	$(RDMAVM) -driver mlx5 -hosts 2 -packages $(PEERS) -trace bin/mlx5.trace -- sh test/connectx/tracediff/pingpong.sh ibv_ $(CURDIR)/bin/ibv_
	$(GO) run ./test/connectx/tracediff/halves bin/mlx5.trace

# What the network does to the packets of the soak of connections. Jitter is not among it: it changes the order of nearly all
# packets of a message, and RC gives up after some repetitions without progress.
SOAK_NETEM = delay,2ms,reorder,0.5%,loss,0.1%

soak: $(TOOLS) ## run random traffic for SOAK on each driver: nothing may be lost, changed or left
	@$(RUN) $(foreach k,$(SOAK_KERNELS),$(foreach d,rxe siw mlx5,-- -vm "-kernel $(k) -driver $(d) -timeout 1h" -timeout 1h -run '^TestSoak$$' -args '-soak $(SOAK) $(SOAKFLAGS)' -estimate $(SOAK) ./test/soak \
	-- -vm "-kernel $(k) -driver $(d) -modules sch_netem -timeout 2h" -timeout 2h -run '^TestConnections$$' -args '-soak $(SOAK) -removals -netem $(SOAK_NETEM) $(SOAKFLAGS)' -estimate 50m ./test/soak/connections))

abi: ## measure the kernel's headers again: a difference is shown, and fails
	$(GO) run ./test/abi/gen
	git diff --exit-code -- abi/testdata test/abi/mirrors

api: ## write the exported API of each public package to docs/api
	$(GO) run ./test/api/write

release: bin/cyclonedx-gomod ## build the programs of this commit for amd64 and arm64, twice, with an SBOM and checksums, into bin/release
	$(GO) run ./test/release -sbom bin/cyclonedx-gomod -out bin/release

# The tool is part of the SBOM, so it must not differ between machines.
bin/cyclonedx-gomod: test/tools/go.mod test/tools/go.sum
	$(GO) -C test/tools build -trimpath -buildvcs=false -o ../../$@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

bin/govulncheck: test/tools/go.mod test/tools/go.sum
	$(GO) -C test/tools build -o ../../$@ golang.org/x/vuln/cmd/govulncheck

# Another database of vulnerabilities than that of the Go project, for vulncheck.
VULNDB  ?=

# A machine without access to the database has checked nothing, which is not a failure.
vulncheck: bin/govulncheck ## look for known vulnerabilities in the code and in what it calls, if the database can be reached
	@out=$$(bin/govulncheck $(if $(VULNDB),-db $(VULNDB)) ./... 2>&1); st=$$?; echo "$$out"; \
	case "$$st $$out" in \
	"1 "*"govulncheck: fetching vulnerabilities: "*) echo 'make vulncheck: not checked: the database of vulnerabilities cannot be reached' ;; \
	*) exit $$st ;; \
	esac

module: ## give the module the path NAME, such as host/name, in all files
	$(GO) run ./test/rename $(NAME)
	$(GO) run ./test/api/write
	$(GO) run ./test/documents/write

docs: ## write the generated parts of the documents
	$(GO) run ./test/documents/write

addrinfo: $(RDMAVM) ## record librdmacm's look-ups again: a difference is shown, and fails
	$(GO) run ./test/addrinfo/gen
	git diff --exit-code -- cm/testdata cmd/internal/addrinfo/testdata

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
	$(GO) run ./test/mutate $(MUTATEFLAGS)

mutate-erdma: ## show which small changes of provider/erdma its tests see: MUTATEFLAGS='-seed 2 -n 100'
	$(GO) run ./test/mutate -driver erdma $(MUTATEFLAGS)

mutate-bnxt_re: ## show which small changes of provider/bnxt_re its tests see: MUTATEFLAGS='-seed 2 -n 100'
	$(GO) run ./test/mutate -driver bnxt_re $(MUTATEFLAGS)

litmus: ## check the memory order of each protocol in shared memory, on the models of amd64 and arm64, with and without each barrier
	$(GO) test -count=1 -run 'TestProtocols|TestCode|TestEachAccess' -v ./test/litmus

test-arm64: bin/arm64 bin/run ## run the tests of what is close to the processor, built for arm64, in QEMU's emulator of programs
	@$(RUN) -- $(ARM64_ROW)

RACE_HOST_ROW := -name 'this machine, race detector' -host -race -env CGO_ENABLED=1 -estimate 6m ./... $(SUITES) ./prometheus
RACE_VM_ROW    = $(call VM,$(OLDEST),rxe) -name 'Linux $(OLDEST), rxe: race detector' -race -rping bin/race/rping -timeout 20m -skip '^TestSoak$$' -estimate 15m ./...

race-host: bin/run compiler ## run the tests that need no RDMA with the race detector (needs a C compiler)
	@$(RUN) -- $(RACE_HOST_ROW)

faults: $(RDMAVM) bin/faults ## provoke driver faults that kernels do not survive or that need many attempts, each in a virtual machine of its own, on each kernel of KERNELS
	bin/faults -rdmavm $(RDMAVM) -kernels '$(KERNELS)'

race: $(TOOLS) compiler race-programs ## run all tests with the race detector (needs a C compiler)
	@$(RUN) -- $(RACE_HOST_ROW) -- $(RACE_VM_ROW)

.PHONY: compiler race-programs
compiler:
	@command -v gcc >/dev/null || command -v $${CC:-cc} >/dev/null || { echo 'this target needs a C compiler: apt-get install gcc libc6-dev' >&2; exit 1; }

race-programs: compiler
	@mkdir -p bin/race
	CGO_ENABLED=1 $(GO) build -race -o bin/race $(patsubst bin/%,./cmd/%,$(filter-out $(RDMAVM),$(CMDS)))

prose: bin/vale ## check the English of comments and documents with Vale
	bin/vale --no-global --output=line .

lint: bin/staticcheck cross prose ## check the form: gofmt, vet, staticcheck, Vale, the rules of test/arch
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')) && [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	bin/staticcheck ./...
	cd test/abi/btf && $(GO) vet . && ../../../bin/staticcheck .
	GOOS=darwin bin/staticcheck ./cm ./verbs ./cmd/rping
	RDMA_LONG_TESTS=1 $(GO) test -run 'TestImports|TestTable|TestDocuments|TestExternalModule|TestFailureMessages' ./test/arch

bin/btf.test: FORCE
	$(QUIET)$(GO) -C test/abi/btf test -c -o ../../../$@ .

bin/staticcheck: test/tools/go.mod test/tools/go.sum
	$(GO) -C test/tools build -o ../../$@ honnef.co/go/tools/cmd/staticcheck

# Vale parses Go with tree-sitter, which is C.
bin/vale: test/tools/go.mod test/tools/go.sum | compiler
	CGO_ENABLED=1 $(GO) -C test/tools build -o ../../$@ github.com/errata-ai/vale/v3/cmd/vale

# As the commands are built: what TestBinaries compiles is then compiled once, and so is
# what another copy of this repository has compiled.
cross: ## compile for other systems, and vet the tests on one of 32 bits
	@for s in $(CROSS); do \
		echo "GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build -trimpath ./..."; \
		GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build -trimpath ./... || exit 1; \
	done
	GOOS=linux GOARCH=386 $(GO) vet -trimpath ./...

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

bench: $(CMDS) bin/bench bin/grpcperf ## measure against rdma-core's programs, in the virtual machine: DRIVER, KERNEL, BENCHFLAGS=-full
	$(RDMAVM) $(BENCHVM) -hosts 2 -packages $(BENCH_C) -- bin/bench -rping bin/rping $(BENCHFLAGS)

bench-mlx5: ## measure posting and polling against libmlx5, here (needs gcc and valgrind)
	$(GO) run ./test/bench/provider $(BENCHFLAGS)

bench-erdma: ## measure posting and polling against liberdma, here (needs gcc and valgrind)
	$(GO) run ./test/bench/provider -driver erdma $(BENCHFLAGS)

bench-bnxt_re: ## measure posting and polling against libbnxt_re, here (needs gcc and valgrind)
	$(GO) run ./test/bench/provider -driver bnxt_re $(BENCHFLAGS)

clean: ## remove what was built
	rm -rf bin
