// SPDX-License-Identifier: Apache-2.0

//go:build linux

package qemu

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"purerdma/test/microvm/arch"
)

func TestArgs(t *testing.T) {
	m := &Machine{Accel: "tcg", Kernel: "k", Initrd: "i", Append: "quiet", Memory: 512, CPUs: 2, Console: "a,b", Port: os.Stdin}
	for i := range 9 {
		m.Dirs = append(m.Dirs, Dir{Tag: "t", Path: "/d,e", ReadOnly: i == 0})
	}
	m.Nets = []Net{{Local: "/a", Remote: "/b", MAC: "52:54:00:00:00:01"}}
	got := strings.Join(m.Args(), " ")
	for _, want := range []string{
		"-m 512", "-smp 2", "path=a,,b", "fd=3", "isa-debug-exit,iobase=0xf4",
		"id=fs0,path=/d,,e,security_model=none,multidevs=remap,readonly=on",
		"virtio-9p-pci,fsdev=fs8,mount_tag=t,addr=0x9.0,multifunction=on",
		"local.path=/a,remote.type=unix,remote.path=/b",
		"tcg,thread=multi", "panic=-1 oops=panic console=ttyS0 maxcpus=1 ", "no_timer_check", " quiet -",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Args lack %q: %s", want, got)
		}
	}
	if strings.Count(got, "readonly=on") != 1 {
		t.Errorf("Args have another number of read-only directories than 1: %s", got)
	}
}

// TestHostClock checks that a guest trusts its counters only if they are the host's and the
// host trusts them.
func TestHostClock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "current_clocksource")
	for source, want := range map[string]string{"tsc\n": "tsc=reliable", "hpet\n": "", "kvm-clock\n": ""} {
		if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		if got := hostClock(file); got != want {
			t.Errorf("hostClock with source %q = %q, want %q", source, got, want)
		}
	}
	if got := hostClock(file + "x"); got != "" {
		t.Errorf("hostClock without a file = %q, want none", got)
	}
	if got := (&Machine{Accel: "kvm"}).Args(); slices.ContainsFunc(got, func(a string) bool { return strings.Contains(a, "tsc=") || strings.Contains(a, "maxcpus") }) {
		t.Errorf("Args under KVM = %q, want no tsc and no maxcpus", got)
	}
}

// TestARM64 checks the board of arm64, and that only an emulation runs it here.
func TestARM64(t *testing.T) {
	if arch.ARM64.Native() {
		t.Skip("this machine is arm64")
	}
	got := strings.Join((&Machine{Arch: arch.ARM64, Accel: "tcg", Memory: 512, VFIOUser: []string{"/s"}}).Args(), " ")
	for _, want := range []string{"-M virt,gic-version=3,memory-backend=ram", "userspace=on", "console=ttyAMA0"} {
		if !strings.Contains(got, want) {
			t.Errorf("Args of arm64 = %s, want %q in it", got, want)
		}
	}
	if strings.Contains(got, "isa-debug-exit") || strings.Contains(got, "maxcpus") {
		t.Errorf("Args of arm64 = %s, want no part of amd64", got)
	}
	t.Setenv("RDMAVM_ACCEL", "")
	boot := func() (*Machine, error) { return nil, errors.New("no boot was expected") }
	if a, err := (&QEMU{Arch: arch.ARM64}).Accel(nil, "6.1", io.Discard, boot); a != "tcg" || err != nil {
		t.Errorf("Accel of arm64 = %q, %v, want tcg", a, err)
	}
}

// TestVFIOUser checks that the memory is shared, without which the device's model could not
// access it, and that each device has a port of PCI Express.
func TestVFIOUser(t *testing.T) {
	m := &Machine{Accel: "tcg", Memory: 512, VFIOUser: []string{"/s,0", "/s1"}}
	got := strings.Join(m.Args(), " ")
	for _, want := range []string{
		"-M q35,vmport=off,memory-backend=ram", "memory-backend-memfd,id=ram,size=512M,share=on",
		"pcie-root-port,id=port0,chassis=1,slot=1", `{"bus":"port0","driver":"vfio-user-pci","socket":{"path":"/s,0","type":"unix"},"x-msg-timeout":60000}`,
		"pcie-root-port,id=port1,chassis=2,slot=2", `"path":"/s1"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Args lack %q: %s", want, got)
		}
	}
	const waits = `"x-no-posted-writes":true`
	if strings.Contains(got, waits) {
		t.Errorf("Args have %q without WaitForWrites: %s", waits, got)
	}
	m.WaitForWrites = true
	if got := strings.Join(m.Args(), " "); strings.Count(got, waits) != 2 {
		t.Errorf("Args lack %q for each function: %s", waits, got)
	}
}

// TestNodes checks that NUMA nodes share the memory and the processors, and that models of devices can access all memory.
func TestNodes(t *testing.T) {
	m := &Machine{Accel: "tcg", Memory: 1001, CPUs: 5, Nodes: 2}
	got := strings.Join(m.Args(), " ")
	const nodes = "-object memory-backend-ram,id=ram0,size=500M -numa node,nodeid=0,cpus=0-1,memdev=ram0 " +
		"-object memory-backend-ram,id=ram1,size=501M -numa node,nodeid=1,cpus=2-4,memdev=ram1"
	if !strings.Contains(got, nodes) {
		t.Errorf("Args = %s, want %q in it", got, nodes)
	}
	m.VFIOUser = []string{"/s"}
	got = strings.Join(m.Args(), " ")
	if !strings.Contains(got, "memory-backend-memfd,id=ram1,size=501M,share=on") || strings.Contains(got, "memory-backend=") || strings.Contains(got, "id=ram,") {
		t.Errorf("Args of a machine with models of devices = %s, want only shared memory of nodes", got)
	}
}

// TestHasVFIOUser runs shell scripts instead of QEMU.
func TestHasVFIOUser(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for script, want := range map[string]bool{
		`[ "$1 $2" = "-device vfio-user-pci,help" ]`: true,
		"exit 1": false,
	} {
		q := &QEMU{Arch: arch.AMD64, argv: []string{sh, "-c", script, "qemu"}}
		if q.hasVFIOUser(t.Context()) != want {
			t.Errorf("hasVFIOUser of %s = %v, want %v", script, !want, want)
		}
	}
}

// TestStatus runs a shell script instead of QEMU.
func TestStatus(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	q := &QEMU{Arch: arch.AMD64, argv: []string{sh, "-c", "echo said; exit 85"}}
	p, err := q.Start(&Machine{})
	if err != nil {
		t.Fatalf("q.Start: %v", err)
	}
	if status, out := p.Status(); status != OrderlyExit || out != "said" {
		t.Errorf("Status = %d, %q, want the orderly exit and the output", status, out)
	}
	q.argv[2] = "exec sleep 100"
	if p, err = q.Start(&Machine{}); err != nil {
		t.Fatalf("q.Start: %v", err)
	}
	p.Kill()
	if status, _ := p.Status(); status != -1 {
		t.Errorf("Status of a killed process = %d, want -1", status)
	}
}
