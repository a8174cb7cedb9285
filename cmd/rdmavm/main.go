// SPDX-License-Identifier: Apache-2.0

// Rdmavm runs a program in a small virtual machine with RDMA devices. It is for machines
// without such devices: laptops, containers, CI runners.
//
//	rdmavm [flags] [--] program [args]
//	rdmavm [flags]                         a shell
//	rdmavm [flags] -list file              several programs in one boot
//	go test -exec 'rdmavm [flags]' ./...
//
// It boots a Debian kernel under QEMU, loads the RDMA modules, creates the devices, runs the
// program and ends. The program can read the machine's files at their own paths. Its output
// appears live, and rdmavm returns its exit status. A boot takes about four seconds under
// software emulation, less with KVM. It needs neither root nor hardware nor an installed QEMU.
//
// # Flags
//
//	-kernel series   6.1 (default), 5.10 (only rxe and mlx5), 6.12 or 7
//	-arch name       amd64 (default), or arm64, which QEMU emulates; see below
//	-driver name     rxe (default): RoCE v2 in software;
//	                 siw: iWARP in software, built with the machine's gcc;
//	                 mlx5: the drivers of ConnectX cards, on software models;
//	                 erdma: the driver of Alibaba Cloud's eRDMA adapters, built
//	                 with the machine's gcc, on software models;
//	                 bnxt_re, bnxt_re-p7: the drivers of Broadcom's NetXtreme-E
//	                 cards, on software models of two generations, with Linux
//	                 6.12 or 7
//	-hosts n         1 (default): one RDMA device, which can talk to itself;
//	                 2: two, with a wire between them
//	-vms             with -hosts 2: each host is a virtual machine of its
//	                 own; the program starts in both, and their lines are
//	                 marked "[0] " and "[1] "
//	-root none       a root that contains only the program: proves that
//	                 it would run in a container FROM scratch
//	-packages p,...  Debian packages, with their dependencies, that the
//	                 guest sees as if they were installed
//	-release name    the Debian release of those packages, such as trixie
//	                 or sid (default: this machine's)
//	-modules m,...   kernel modules to load besides those of RDMA, such as
//	                 sch_netem or bonding. Parameters follow the name of
//	                 their module, which may also be one of RDMA:
//	                 "bonding max_bonds=3,sch_netem"
//	-share dir       a directory that the guest may write to; repeatable
//	-list file       run the commands in file, see below
//	-timeout d       time limit of a program: 10m, unless -test.timeout
//	                 is longer; 0 is no limit, as for a shell
//	-trace file      with modeled devices: write a trace of their operations to file
//	-append words    further parameters for the kernel, as mitigations=off
//	-memory MB       1024
//	-cpus n          2
//	-t               run the program on a terminal
//	-v               show the progress of the boot and the kernel's log
//	-prepare         only download and build the requirements of a run, in
//	                 the newest version, as a separate step in CI
//	-version         print the version of rdmavm
//
// # Environment of the program
//
// The program inherits the environment of rdmavm. These variables are added:
//
//	RDMAVM=1
//	RDMAVM_KERNEL_RELEASE   as printed by uname -r: 6.1.0-56-amd64
//	RDMAVM_DRIVER           rxe, siw, mlx5, erdma, bnxt_re or bnxt_re-p7
//	RDMAVM_HOSTS            the ends of the wire, separated by spaces, each
//	                        rdma device,network device,IPv4,IPv6:
//	                        rxe0,eth8,10.8.0.1,fd00:8::1 rxe1,eth9,10.8.1.2,fd00:9::2
//	                        with -driver siw the devices are siw0 and siw1, with
//	                        -driver mlx5 mlx5_0 and mlx5_1, with -driver
//	                        erdma erdma_0 and erdma_1, and with -driver
//	                        bnxt_re bnxt_re0 and bnxt_re1
//	RDMAVM_FAULTS           with modeled devices: a socket, see below
//	RDMAVM_HOST             with -vms: the index of this VM's host, 0 or 1
//
// Without -vms both ends are in one network namespace. Packets between them still cross the
// wire, a veth pair, in both directions and for IPv4 and IPv6, because of policy routing. A
// client has to bind to the address of its own end. Otherwise the kernel chooses one. Tests may
// delay or drop packets on the wire with tc(8), and capture them.
//
// The program is root. The root directory is the machine's, read-only, under a layer in memory.
// The program can write everywhere, and its changes are discarded at the end. Only the
// following directories are the machine's own and keep their changes:
//
//   - the working directory
//   - the work directory of the go command, if the program is in it
//   - directories in -test.* flags (profiles, outputdir, gocoverdir) and GOCOVERDIR
//   - directories in -share
//
// The root itself and system directories are only among them if -share names them.
//
// The virtual machine is no sandbox. The program in it is root, can read every file that the
// user of rdmavm can read, and can write to the directories above. It can also attack QEMU,
// which runs as that user. Run only programs in it that you would also run without it.
//
// The program can load the kernel's modules as on any system, and the kernel loads modules
// itself when it needs them. If the root has no modprobe(8), rdmavm adds one, which takes the
// options -a, -q and -r. The wire is the only network. When the program ends, rdmavm kills
// its remaining processes.
//
// # Software ConnectX
//
// With -driver mlx5 each host is a PCI function that rdmavm itself models (package
// test/connectx). QEMU attaches it as a device of vfio-user, and the kernel detects a
// ConnectX-5 of Ethernet. The unmodified mlx5_core, mlx5e and mlx5_ib drive it, and programs
// use it through libmlx5 or another provider. The wire connects the cards. With -vms it leads
// from one virtual machine to the other. Operations that the programmer's manual forbids are
// reported and make the exit status 125.
//
// A program can inject faults into a card. It connects to the Unix socket at the path in
// RDMAVM_FAULTS and writes one line for each connection. The line consists of a card, hca0 or
// hca1, a fault and numbers. The answer is an empty line or an error message. Numbers are
// decimal, or hexadecimal with 0x. The PRM defines the numbers of syndromes, events and
// statuses.
//
//	hca0 port-down                        the cable is pulled; port-up plugs it in
//	hca0 lose MESSAGES                    that many of its next messages are lost
//	hca0 lose-answers MESSAGES            they arrive, but the answers are lost
//	hca0 delay MESSAGES MICROSECONDS      they arrive late
//	hca0 silent YES                       1: all its messages are lost; 0: no longer
//	hca0 removing YES                     1: its driver is being removed, so stores for
//	                                      destroyed objects are no violations; 0: no longer
//	hca0 fail-next QPN SYNDROME           the QP's next request fails
//	hca0 fail-next-receive QPN SYNDROME   the next receive of a message fails
//	hca0 fail-qp QPN EVENT                the QP fails: 0x5, 0x10 or 0x11
//	hca0 fail-cq CQN                      the completion queue overruns
//	hca0 drain QPN                        the QP stops sending, as after a wrong signature
//	hca0 fail-command OPCODE STATUS SYNDROME TIMES
//	hca0 quirks EXACT-DOORBELLS RECEIVE-COUNTER-MODULO HOLD-RESIZE
//	                                      1 or 0 each, see Quirks of package connectx
//	hca0 stray RECEIVE                    one more completion of the last destroyed QP
//	hca0 fatal SYNDROME                   the firmware fails, until it is reset
//
// From a shell:
//
//	echo "hca0 lose 3" | socat - UNIX-CONNECT:$RDMAVM_FAULTS
//
// The model verifies requests, completions and commands. It does not model memory barriers or a
// card's timing, and does not replace a test on a card.
//
// # Software eRDMA
//
// With -driver erdma each host is an eRDMA adapter that rdmavm itself models (package
// test/erdma), with a port of iWARP. The network device of a host is a network card of the
// virtual machine, and a wire connects the two cards. The kernel sets up connections over TCP on
// the cards. The adapters then transfer the data without them. Operations that a driver must not
// do are reported and make the exit status 125. These faults can be injected:
//
//	hca0 silent YES            1: requests to and from the adapter wait; 0: no longer
//	hca0 fail-next QPN STATUS  the QP's next request fails with a status of erdma_hw.h
//	hca0 fail-qp QPN           the QP's connection ends with events
//
// # Software NetXtreme-E
//
// With -driver bnxt_re each host is a BCM57508 that rdmavm itself models (package test/netxtreme). With
// -driver bnxt_re-p7 it is a BCM57608. On Linux 7 the BCM57608 needs a newer libbnxt_re than Debian 13 has.
// The unmodified bnxt_en and bnxt_re drive both, and programs use them through libbnxt_re or another
// provider. The wire connects the cards. Operations that a driver must not do are reported and make
// the exit status 125. These faults can be injected:
//
//	hca0 port-down             the cable is pulled; port-up plugs it in
//	hca0 silent YES            1: all its messages of RDMA are lost; 0: no longer
//	hca0 removing YES          1: its driver is being removed, so doorbells of destroyed
//	                           queues are no violations; 0: no longer
//	hca0 fail-next QPN STATUS  the QP's next request fails with a status of roce_hsi.h
//	hca0 fail-qp QPN           the QP fails with an event
//	hca0 doorbells ENTRIES     that many doorbells wait in the card
//
// # arm64
//
// With -arch arm64 the guest is a machine of arm64, with a Debian kernel of that architecture. The
// kernel series 6.12-16k has pages of 16 KiB. The file rdmavm-arm64 next to rdmavm must be rdmavm
// itself, built for arm64. The programs of the guest must also be built for arm64. The guest has
// this machine's files. A shell, its common programs, ip(8) and -packages replace the machine's own by
// packages of arm64. For siw, a cross compiler is taken from Debian's packages.
//
//	make bin/rdmavm bin/rdmavm-arm64
//	GOARCH=arm64 CGO_ENABLED=0 go build -o program .
//	bin/rdmavm -arch arm64 -hosts 2 -- ./program
//
// An emulator on amd64 orders memory as amd64 does. It shows that programs work on arm64, and not
// that their barriers are enough.
//
// # Exit status
//
// The exit status is the program's, with these exceptions:
//
//   - 128+n if signal n killed the program
//   - 127 if the program was not found, 126 if it could not be executed
//   - 124 if it ran longer than -timeout
//   - 125 if rdmavm itself failed, if the kernel oopsed, warned or hung, or if a modeled card was misused, even if the program succeeded. A warning about a driver fault that tests provoke by chance is only printed (package test/microvm/host has the list).
//
// The guest also has to report an orderly end, so a virtual machine that dies never counts as
// success.
//
// Signals are passed on to the program. If it has not ended five seconds after SIGINT, SIGTERM
// or SIGHUP, or at a second signal, rdmavm kills the virtual machine. The virtual machine never
// outlives rdmavm. At the timeout the program gets SIGQUIT, so that the Go runtime prints all
// stacks, and ten seconds later SIGKILL.
//
// # Testing Go packages
//
//	go test -exec 'rdmavm -hosts 2' ./...
//	go test -exec 'rdmavm -hosts 2' -run TestX -v -cpuprofile cpu.out ./pkg
//
// Test binaries run in their package's directory and find their testdata. Packages that go test
// runs in parallel take turns, because a user has only one virtual machine (or pair) at a time
// on a machine. The lock is the file rdmavm.lock in XDG_RUNTIME_DIR or /run/user/UID, or else
// in rdmavm in the user's cache directory. Each package is a boot. Many packages are faster in
// one boot:
//
//	for p in abi verbs; do
//		go test -c -o "$tmp/$p.test" "./$p"
//		echo "{\"dir\": \"$p\", \"args\": [\"$tmp/$p.test\", \"-test.v\"]}"
//	done | rdmavm -hosts 2 -list -
//
// A list contains one JSON object for each command with "args", and optionally "dir" (relative
// to the directory of rdmavm) and "env" (additional variables). All commands run in order,
// without input. Lines on stderr report the running command and its result. The exit status is
// the status of the first command that failed.
//
// The C programs of rdma-core are available as test peers:
//
//	rdmavm -hosts 2 -packages rdmacm-utils,ibverbs-utils,ibverbs-providers,iproute2 -- \
//		sh -c 'rping -s -a 10.8.0.1 -C 5 & rping -c -a 10.8.0.1 -I 10.8.1.2 -C 5 -v'
//
// # Downloads and cache
//
// QEMU is the qemu-system-x86_64 on PATH or, without one, Debian's package. -driver mlx5 needs
// a QEMU with vfio-user, version 10.1 or newer. It is taken from PATH or from the backports of
// Debian 13, on any machine.
//
// QEMU, the kernels and -packages are downloaded by apt from the machine's configured mirror,
// with its keys. They are unpacked into a cache and not installed. The cache is RDMAVM_CACHE,
// or else rdmavm in the user's cache directory. Cached files are used until -prepare checks for
// newer versions. The cache may be removed whenever no rdmavm is running. The kernel's log of
// the last run is in its folder log.
//
// Debian's kernels do not include siw and erdma. With these drivers, rdmavm downloads the kernel's
// headers and source, builds the module and keeps only that. This takes half a minute, 180 MB of
// downloads, and temporarily 500 MB of disk. It needs the machine's gcc, make and xz.
//
// KVM is used only after a boot has proved that it works with this QEMU, kernel and processor,
// because a /dev/kvm that does not work is common.
//
// On distributions without apt, install QEMU and name a kernel:
//
//	RDMAVM_QEMU      the emulator to use, a qemu-system-x86_64
//	RDMAVM_KERNEL    the kernel to boot, a bzImage such as /boot/vmlinuz
//	RDMAVM_MODULES   its modules, if not in /lib/modules/RELEASE
//	RDMAVM_ACCEL     kvm or tcg, instead of detecting it
//
// Such a kernel needs rdma_rxe (or siw), 9p, overlay, veth and virtio_pci, as modules or built
// in.
package main
