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

	"purerdma/test/microvm/wire"
)

// A Machine says what a virtual machine is made of.
type Machine struct {
	Accel   string // tcg or kvm
	Kernel  string // vmlinuz
	Initrd  string
	Append  string // to the kernel's command line
	Memory  int    // MB
	CPUs    int
	Console string   // file for what the kernel prints
	Port    *os.File // one end of a socket pair: the channel of package wire
	Dirs    []Dir    // of the host, by 9p
	Net     *Net     // nil: none

	// VFIOUser are the sockets of PCI functions that other processes model.
	// With them the machine has PCI Express, and shares its memory.
	VFIOUser []string
}

// A Dir is a directory of the host that the guest can mount.
type Dir struct {
	Tag      string
	Path     string
	ReadOnly bool
}

// A Net is one end of a cable: datagrams on a pair of unix sockets.
type Net struct {
	Local, Remote string // paths of the sockets
	MAC           string
}

// Args returns QEMU's arguments; the Port is its file descriptor 3.
func (m *Machine) Args() []string {
	// The kernel's check of the IO-APIC's timer panics where the host is too busy to emulate
	// ten ticks in time.
	cpu, accel, params := "max", "tcg,thread=multi", oneProcessor+" no_timer_check "+hostClock(clockSource)
	if m.Accel == "kvm" {
		cpu, accel, params = "host", "kvm", ""
	}
	// Not the board called microvm: it would boot a second faster, but now and
	// then a boot hangs before the kernel's first word.
	board := "pc,vmport=off"
	if len(m.VFIOUser) > 0 {
		board = "q35,vmport=off,memory-backend=ram"
	}
	a := []string{
		"-M", board, "-accel", accel, "-cpu", cpu,
		"-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.Memory),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none",
		"-kernel", m.Kernel, "-initrd", m.Initrd,
		"-append", strings.Join(strings.Fields("console=ttyS0 panic=-1 oops=panic "+params+" "+m.Append), " "),
		"-chardev", "file,id=console,path=" + escape(m.Console), "-serial", "chardev:console",
		"-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=4", wire.DebugExitPort),
	}
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
		// Eight functions to a slot: the bus has but 32 slots.
		dev := fmt.Sprintf("virtio-9p-pci,fsdev=fs%d,mount_tag=%s,addr=%#x.%d,multifunction=on", i, d.Tag, firstSlot+i/8, i%8)
		a = append(a, "-fsdev", fs, "-device", dev)
	}
	if len(m.VFIOUser) > 0 {
		a = append(a, "-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", m.Memory))
	}
	for i, path := range m.VFIOUser {
		// A socket can only be given as JSON.
		dev, _ := json.Marshal(map[string]any{
			"driver": vfioUserPCI, "bus": fmt.Sprintf("port%d", i),
			"socket": map[string]string{"type": "unix", "path": path},
		})
		a = append(a, "-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%d,slot=%d,addr=%#x", i, i+1, i+1, firstSlot+MaxDirs/8+i), "-device", string(dev))
	}
	if n := m.Net; n != nil {
		a = append(a, "-netdev", fmt.Sprintf("dgram,id=net,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", escape(n.Local), escape(n.Remote)),
			"-device", "virtio-net-pci,netdev=net,romfile=,mac="+n.MAC)
	}
	return a
}

// oneProcessor has a guest boot on its first processor; its init starts the others.
// While a kernel boots it rewrites its own code (to read another clock, for one), by
// way of a breakpoint. QEMU's emulation of several processors now and then keeps what
// it had translated of that: a processor that comes by later dies of "Oops: int3".
// Seen at the switch of clocks on 7.3 in one boot of some dozens; turning
// /proc/sys/kernel/sched_schedstats on and off in a loop shows it within seconds with
// QEMU 7.2, and sometimes with 11.1. Without the second parameter, which 7.3 no longer
// has, a kernel would rewrite its locks, too, when the second processor comes.
const oneProcessor = "maxcpus=1 noreplace-smp"

// clockSource is where Linux says what it tells the time by.
const clockSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// hostClock returns the parameter that has a guest believe its processors' counters,
// which are this machine's where QEMU emulates, if this machine's kernel believes
// them itself; else "". Without it each look at the clock is one into a register of
// the emulated board: programs that poll take several times as long.
func hostClock(file string) string {
	if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == "tsc" {
		return "tsc=reliable"
	}
	return ""
}

// firstSlot is the first PCI slot for directories, MaxDirs how many there
// can be.
const (
	firstSlot = 8
	MaxDirs   = 64
)

// escape protects a path in QEMU's options, where a comma ends a value.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// A Process is a running QEMU.
type Process struct {
	cmd    *exec.Cmd
	done   chan struct{}
	err    error
	output strings.Builder // what QEMU says itself
}

// Start runs the machine. QEMU dies with this process, even when that is
// killed without notice: the thread that started it lives as long as it does
// and the kernel sends the signal when the thread ends.
func (q *QEMU) Start(m *Machine) (*Process, error) {
	argv := append(q.argv[:len(q.argv):len(q.argv)], m.Args()...)
	p := &Process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), q.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second // a wrapper's children may hold the pipe
	if m.Port != nil {
		p.cmd.ExtraFiles = []*os.File{m.Port}
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // an interrupt from the terminal is for us to handle
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
		return nil, fmt.Errorf("starting QEMU %s: %w", argv[0], err)
	}
	return p, nil
}

// Done is closed when QEMU has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status returns the exit status of a QEMU that has ended, -1 for one that
// a signal killed, and what it printed.
func (p *Process) Status() (status int, output string) {
	<-p.done
	return p.cmd.ProcessState.ExitCode(), strings.TrimSpace(p.output.String())
}

// Kill ends QEMU and waits for that.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// OrderlyExit is QEMU's exit status when the guest says that it is done.
const OrderlyExit = wire.DebugExitStatus
