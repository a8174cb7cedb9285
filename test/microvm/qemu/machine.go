// SPDX-License-Identifier: Apache-2.0

//go:build linux

package qemu

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/wire"
)

// A Machine describes the parts of a virtual machine.
type Machine struct {
	Arch    *arch.Arch
	Accel   string // tcg or kvm
	Kernel  string // vmlinuz
	Initrd  string
	Append  string // added to the kernel's command line
	Memory  int    // in MB
	CPUs    int
	Nodes   int      // NUMA nodes, which share Memory and CPUs. 0 means no NUMA
	Console string   // file for the kernel's output
	Port    *os.File // one end of a socket pair, the channel of package wire
	Dirs    []Dir    // directories of the host, through 9p
	Nets    []Net

	// VFIOUser contains the sockets of PCI functions that other processes model. With them the
	// machine has PCI Express and shares its memory.
	VFIOUser []string
	// WaitForWrites makes the guest's stores to the functions wait for the model. Otherwise QEMU queues them without
	// a bound, and the guest can store faster than the model executes.
	WaitForWrites bool
}

// A Dir is a directory of the host that the guest can mount.
type Dir struct {
	Tag      string
	Path     string
	ReadOnly bool
}

// A Net is one end of a cable, implemented as datagrams on a pair of unix sockets.
type Net struct {
	Local, Remote string // paths of the sockets
	MAC           string
}

// Args returns QEMU's arguments. The Port is file descriptor 3 of QEMU.
func (m *Machine) Args() []string {
	a := append(m.board(),
		"-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.Memory),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none",
		"-kernel", m.Kernel, "-initrd", m.Initrd,
		"-append", strings.Join(strings.Fields("panic=-1 oops=panic "+m.params()+" "+m.Append), " "),
		"-chardev", "file,id=console,path="+escape(m.Console), "-serial", "chardev:console",
	)
	if m.Port != nil {
		a = append(a, "-device", "virtio-serial-pci,max_ports=2",
			"-chardev", "socket,id=port,fd=3",
			"-device", "virtserialport,chardev=port,name="+wire.PortName)
	}
	for i, d := range m.Dirs {
		fs := fmt.Sprintf("local,id=fs%d,path=%s,security_model=none,multidevs=remap", i, escape(d.Path))
		if d.ReadOnly {
			fs += ",readonly=on"
		}
		// Each slot has eight functions, because the bus has only 32 slots.
		dev := fmt.Sprintf("virtio-9p-pci,fsdev=fs%d,mount_tag=%s,addr=%#x.%d,multifunction=on", i, d.Tag, firstSlot+i/8, i%8)
		a = append(a, "-fsdev", fs, "-device", dev)
	}
	if m.Nodes > 0 {
		a = append(a, m.nodes()...)
	} else if len(m.VFIOUser) > 0 {
		a = append(a, "-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", m.Memory))
	}
	for i, path := range m.VFIOUser {
		// A socket requires the JSON syntax.
		props := map[string]any{
			"driver": vfioUserPCI, "bus": fmt.Sprintf("port%d", i),
			"socket": map[string]string{"type": "unix", "path": path}, "x-msg-timeout": answerLimit.Milliseconds(),
		}
		if m.WaitForWrites {
			props["x-no-posted-writes"] = true
		}
		dev, _ := json.Marshal(props)
		a = append(a, "-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%d,slot=%d,addr=%#x", i, i+1, i+1, firstSlot+MaxDirs/8+i), "-device", string(dev))
	}
	for i, n := range m.Nets {
		a = append(a, "-netdev", fmt.Sprintf("dgram,id=net%d,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", i, escape(n.Local), escape(n.Remote)),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,romfile=,mac=%s", i, n.MAC))
	}
	return a
}

// nodes returns the arguments of the NUMA nodes. Each has memory of its own, which devices' models also share.
func (m *Machine) nodes() []string {
	kind, share := "memory-backend-ram", ""
	if len(m.VFIOUser) > 0 {
		kind, share = "memory-backend-memfd", ",share=on"
	}
	var a []string
	for i := range m.Nodes {
		part := func(all int) (from, to int) { return all * i / m.Nodes, all * (i + 1) / m.Nodes }
		low, high := part(m.Memory)
		first, next := part(m.CPUs)
		a = append(a, "-object", fmt.Sprintf("%s,id=ram%d,size=%dM%s", kind, i, high-low, share),
			"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=ram%d", i, first, next-1, i))
	}
	return a
}

// board returns the arguments of the board, its processor and the accelerator.
func (m *Machine) board() []string {
	accel, memory := "tcg,thread=multi", ""
	if m.Accel == "kvm" {
		accel = "kvm"
	}
	if len(m.VFIOUser) > 0 && m.Nodes == 0 {
		memory = ",memory-backend=ram"
	}
	if m.Arch == arch.ARM64 {
		// The processor has the page sizes of all of Debian's kernels, and atomic instructions.
		cpu := "neoverse-n1"
		if m.Accel == "kvm" {
			cpu = "host"
		}
		return []string{"-M", "virt,gic-version=3" + memory, "-accel", accel, "-cpu", cpu,
			"-semihosting-config", "enable=on,target=native,userspace=on"}
	}
	cpu := "max"
	if m.Accel == "kvm" {
		cpu = "host"
	}
	// Do not use the board microvm. It would boot a second faster, but occasionally a boot
	// hangs before the kernel's first message.
	board := "pc,vmport=off"
	if len(m.VFIOUser) > 0 {
		board = "q35,vmport=off"
	}
	return []string{"-M", board + memory, "-accel", accel, "-cpu", cpu,
		"-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=4", wire.DebugExitPort)}
}

// params returns the kernel's parameters for the board.
func (m *Machine) params() string {
	switch {
	case m.Arch == arch.ARM64:
		return "console=ttyAMA0"
	case m.Accel == "kvm":
		return "console=ttyS0"
	}
	// The kernel's check of the IO-APIC's timer panics if the host is too busy to emulate ten
	// ticks in time.
	return "console=ttyS0 " + oneProcessor + " no_timer_check " + hostClock(clockSource)
}

// answerLimit bounds QEMU's wait for an answer of a device's model. An access without an answer reads as ones,
// which drivers take for a device that was pulled out. QEMU's default of 5 seconds is too short for a machine
// that pauses. The property has 16 bits.
const answerLimit = time.Minute

// oneProcessor makes a guest boot on its first processor. Its init then starts the others. A
// booting kernel modifies its own code with a breakpoint, for example to switch the clock.
// QEMU's emulation of several processors occasionally keeps an outdated translation of that
// code. A processor that executes the translation later dies with "Oops: int3".
//
// This was observed at the switch of clocks on 7.3 in one of some dozens of boots. Toggling
// /proc/sys/kernel/sched_schedstats in a loop reproduces it within seconds with QEMU 7.2, and
// sometimes with 11.1. Without the second parameter, which 7.3 no longer has, a kernel would
// also modify its locks when the second processor starts.
const oneProcessor = "maxcpus=1 noreplace-smp"

// clockSource is the file with Linux's current clock source.
const clockSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// hostClock returns a kernel parameter that makes a guest trust its processors' counters, or
// "". Under emulation these are the counters of this machine, so the guest may trust them if
// this machine's kernel does. Without the parameter each read of the clock accesses a register
// of the emulated board. Programs that poll then take several times as long.
func hostClock(file string) string {
	if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == "tsc" {
		return "tsc=reliable"
	}
	return ""
}

// firstSlot is the first PCI slot for directories. MaxDirs is their maximum number.
const (
	firstSlot = 8
	MaxDirs   = 64
)

// escape quotes a path for QEMU's options, in which a comma ends a value.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// A Process is a running QEMU.
type Process struct {
	cmd    *exec.Cmd
	done   chan struct{}
	err    error
	output strings.Builder // output of QEMU itself
}

// Start runs the machine. QEMU dies with this process, even if this process is killed. The
// kernel sends the signal when the thread that started QEMU ends, so that thread lives as long
// as QEMU.
func (q *QEMU) Start(m *Machine) (*Process, error) {
	argv := append(q.argv[:len(q.argv):len(q.argv)], m.Args()...)
	p := &Process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), q.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second // children of a wrapper may keep the pipe open
	if m.Port != nil {
		p.cmd.ExtraFiles = []*os.File{m.Port}
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // rdmavm handles an interrupt from the terminal
		Pdeathsig: syscall.SIGKILL,
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: see above
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start QEMU %s: %w", argv[0], err)
	}
	return p, nil
}

// Done is closed when QEMU has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status returns the exit status and the output of a QEMU that has ended. The status is -1 if a
// signal killed it.
func (p *Process) Status() (status int, output string) {
	<-p.done
	return p.cmd.ProcessState.ExitCode(), strings.TrimSpace(p.output.String())
}

// Kill kills QEMU and waits for its end.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// OrderlyExit is QEMU's exit status when the guest ends orderly.
const OrderlyExit = wire.DebugExitStatus
