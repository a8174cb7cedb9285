// SPDX-License-Identifier: Apache-2.0

// Rdmavm runs a program in a small virtual machine that has RDMA devices,
// on machines that have none: a laptop, a container, a CI runner.
//
//	rdmavm [flags] [--] program [args]
//	rdmavm [flags]                         a shell
//	rdmavm [flags] -list file              several programs in one boot
//	go test -exec 'rdmavm [flags]' ./...
//
// It boots a Debian kernel under QEMU, loads the RDMA modules, makes the
// devices, runs the program and ends. The program sees the machine's files
// at their own paths, its output comes live, and its exit status is that of
// rdmavm. A boot takes about four seconds under software emulation, less
// with KVM. Neither root nor hardware nor an installed QEMU is needed.
//
// # Flags
//
//	-kernel series   6.1 (default), 5.10, 6.12 or 7
//	-driver name     rxe (default): RoCE v2 in software;
//	                 siw: iWARP in software, built with the machine's gcc;
//	                 mlx5: the drivers of ConnectX cards, on cards that are models
//	-hosts n         1 (default): one RDMA device, which can talk to itself;
//	                 2: two, with a wire between them
//	-vms             with -hosts 2: each host is a virtual machine of its
//	                 own; the program starts in both, and their lines are
//	                 marked "[0] " and "[1] "
//	-root none       a root that holds nothing but the program: proves that
//	                 it would run in a container FROM scratch
//	-packages p,...  Debian packages, with all they depend on, that the
//	                 guest sees as if they were installed
//	-release name    the Debian release of those packages, such as trixie
//	                 or sid: this machine's is the default
//	-modules m,...   kernel modules to load besides those of RDMA, such as
//	                 sch_netem or bonding
//	-share dir       a directory that the guest may write to; repeatable
//	-list file       run the commands in file, see below
//	-timeout d       how long a program may run: 10m, unless -test.timeout
//	                 says more; 0 is for ever, as for a shell
//	-trace file      with -driver mlx5: write what the cards see and do to file
//	-append words    further parameters for the kernel, as mitigations=off
//	-memory MB       1024
//	-cpus n          2
//	-t               run the program on a terminal
//	-v               show how the boot goes and what the kernel logs
//	-prepare         only download and build what a run takes, in the newest
//	                 version, as a step of its own in CI
//
// # What the program finds
//
// The environment is that of rdmavm, and besides:
//
//	RDMAVM=1
//	RDMAVM_KERNEL_RELEASE   as uname -r has it: 6.1.0-56-amd64
//	RDMAVM_DRIVER           rxe, siw or mlx5
//	RDMAVM_HOSTS            the ends of the wire, separated by spaces, each
//	                        rdma device,network device,IPv4,IPv6:
//	                        rxe0,eth8,10.8.0.1,fd00:8::1 rxe1,eth9,10.8.1.2,fd00:9::2
//	                        and with -driver siw the devices are siw0 and siw1, with
//	                        -driver mlx5 mlx5_0 and mlx5_1
//	RDMAVM_FAULTS           with -driver mlx5: a socket, see below
//	RDMAVM_HOST             with -vms: which of these is this VM's, 0 or 1
//
// Without -vms both ends are in one network namespace. Packets between them
// still cross the wire, a veth pair, in both directions and for IPv4 and
// IPv6: policy routing sees to it. A client has to bind to the address of
// its own end, else the kernel picks one. Tests may delay or drop packets
// there with tc(8) and capture them.
//
// The program is root. The root directory is the machine's, read-only, under
// a layer in memory: everything can be written, and what is written is gone
// afterwards. Only these directories are the machine's own and keep what is
// written: the working directory, the work directory of the go command that
// the program lies in, directories that -test.* flags (profiles, outputdir,
// gocoverdir) and GOCOVERDIR name, and those given by -share. The root itself
// and system directories are never among them, unless named by -share.
//
// The virtual machine is no sandbox. The program in it is root, can read every file that
// the user of rdmavm can read, and can write to the directories above. It can also attack
// QEMU, which runs as that user. So run in it what you would run without it.
//
// The modules of the kernel can be loaded as on any system, and the kernel
// loads them itself when it needs them. There is no network but the wire. When
// the program ends, what it left running is killed.
//
// # A ConnectX that is none
//
// With -driver mlx5 each host is a PCI function that rdmavm itself models (package
// test/connectx): for QEMU a device of vfio-user, for the kernel a ConnectX-5 of
// Ethernet, which mlx5_core, mlx5e and mlx5_ib drive as they are, and programs use by
// libmlx5, or whatever else speaks to them. The wire connects the cards; with -vms it
// goes from one virtual machine to the other. What the drivers, or a program's provider,
// do that the programmer's manual forbids is reported, and makes the exit status 125.
//
// A program can have a card fail: the line that it writes to the Unix socket whose path
// is in RDMAVM_FAULTS, once for each connection, is a card, hca0 or hca1, a fault and
// numbers, and is answered by an empty line, or one that says what was wrong. Numbers are
// decimal or 0x and hexadecimal; those of syndromes, events and statuses are the PRM's.
//
//	hca0 port-down                        the cable is pulled; port-up
//	hca0 lose MESSAGES                    that many that it sends next do not arrive
//	hca0 lose-answers MESSAGES            they do, but not what is answered
//	hca0 delay MESSAGES MICROSECONDS      they come late
//	hca0 silent YES                       1: all that it sends is lost; 0: no more
//	hca0 fail-next QPN SYNDROME           the QP's next request fails
//	hca0 fail-next-receive QPN SYNDROME   the next receive that a message comes for fails
//	hca0 fail-qp QPN EVENT                the QP fails: 0x5, 0x10 or 0x11
//	hca0 fail-cq CQN                      the completion queue runs over
//	hca0 drain QPN                        the QP stops to send, as after a wrong signature
//	hca0 fail-command OPCODE STATUS SYNDROME TIMES
//	hca0 quirks EXACT-DOORBELLS RECEIVE-COUNTER-MODULO HOLD-RESIZE
//	                                      1 or 0 each: what package connectx calls Quirks
//	hca0 stray RECEIVE                    one more completion of the QP that was destroyed last
//	hca0 fatal SYNDROME                   the firmware fails, until it is reset
//
// From a shell:
//
//	echo "hca0 lose 3" | socat - UNIX-CONNECT:$RDMAVM_FAULTS
//
// That shows that requests, completions and commands are right. It does not show what
// memory barriers do, or a card's timing, and is never a test on a card.
//
// # Exit status
//
// The program's; 128+n if signal n killed it; 127 if it was not found, 126 if
// it could not be executed; 124 if it ran longer than -timeout; 125 if rdmavm
// itself failed, or if the kernel oopsed, warned or hung, or a modelled card was
// misused, although the program was content. The guest has to report an orderly end besides, so a virtual
// machine that dies never counts as success.
//
// Signals are passed on to the program. If it has not ended five seconds
// after SIGINT, SIGTERM or SIGHUP, or at a second one, the virtual machine is
// killed. It is killed with rdmavm in any case. At the timeout the program
// gets SIGQUIT, so that the Go runtime prints all stacks, and ten seconds
// later SIGKILL.
//
// # Testing Go packages
//
//	go test -exec 'rdmavm -hosts 2' ./...
//	go test -exec 'rdmavm -hosts 2' -run TestX -v -cpuprofile cpu.out ./pkg
//
// Test binaries run in their package's directory and find their testdata.
// Packages that go test runs in parallel take turns: a user has one virtual
// machine (or pair) at a time on a machine, guarded by the file rdmavm.lock in
// XDG_RUNTIME_DIR or /run/user/UID, or else in rdmavm in the user's cache
// directory. Each package is a boot; many packages go faster in one:
//
//	for p in abi verbs; do
//		go test -c -o "$tmp/$p.test" "./$p"
//		echo "{\"dir\": \"$p\", \"args\": [\"$tmp/$p.test\", \"-test.v\"]}"
//	done | rdmavm -hosts 2 -list -
//
// A list holds one JSON object per command with "args", and if need be "dir"
// (relative to the directory of rdmavm) and "env" (in addition). All are run,
// in order, with no input; lines on stderr tell which one runs and how it
// ended; the exit status is that of the first that failed.
//
// The C programs of rdma-core, to test against:
//
//	rdmavm -hosts 2 -packages rdmacm-utils,ibverbs-utils,ibverbs-providers,iproute2 -- \
//		sh -c 'rping -s -a 10.8.0.1 -C 5 & rping -c -a 10.8.0.1 -I 10.8.1.2 -C 5 -v'
//
// # Where it all comes from
//
// QEMU is the qemu-system-x86_64 on PATH or, without one, Debian's package; for
// -driver mlx5 one that has vfio-user, which is 10.1 or newer: on PATH, or from the
// backports of Debian 13, whatever the machine runs.
// That, the kernels and -packages are downloaded by apt from the mirror that
// the machine is configured for, with its keys, and unpacked into a cache,
// not installed: RDMAVM_CACHE or else rdmavm in the user's cache directory.
// What is there is used until -prepare looks for newer versions. The cache may
// be removed at any time that no rdmavm runs. The kernel's log of the last
// run is in its folder log.
//
// Debian's kernels come without siw. With -driver siw, rdmavm downloads the
// kernel's headers and source, builds the module and keeps only that. It takes
// half a minute, 180 MB to download, 500 MB of disk while it lasts, and of the
// machine gcc, make, tar and xz.
//
// KVM is used if a boot once proved that it works, with this QEMU, kernel and
// processor; a /dev/kvm that is there but does not work is common.
//
// On distributions without apt, install QEMU and name a kernel:
//
//	RDMAVM_QEMU      the emulator to use, a qemu-system-x86_64
//	RDMAVM_KERNEL    the kernel to boot, a bzImage such as /boot/vmlinuz
//	RDMAVM_MODULES   its modules, if not in /lib/modules/RELEASE
//	RDMAVM_ACCEL     kvm or tcg, instead of finding out
//
// Such a kernel needs rdma_rxe (or siw), 9p, overlay, veth and virtio_pci, as
// modules or built in.
package main
