// SPDX-License-Identifier: Apache-2.0

//go:build linux

package qemu

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestArgs(t *testing.T) {
	m := &Machine{Accel: "tcg", Kernel: "k", Initrd: "i", Append: "quiet", Memory: 512, CPUs: 2, Console: "a,b", Port: os.Stdin}
	for i := range 9 {
		m.Dirs = append(m.Dirs, Dir{Tag: "t", Path: "/d,e", ReadOnly: i == 0})
	}
	m.Net = &Net{Local: "/a", Remote: "/b", MAC: "52:54:00:00:00:01"}
	got := strings.Join(m.Args(), " ")
	for _, want := range []string{
		"-m 512", "-smp 2", "path=a,,b", "fd=3", "isa-debug-exit,iobase=0xf4",
		"id=fs0,path=/d,,e,security_model=none,multidevs=remap,readonly=on",
		"virtio-9p-pci,fsdev=fs8,mount_tag=t,addr=0x9.0,multifunction=on",
		"local.path=/a,remote.type=unix,remote.path=/b",
		"tcg,thread=multi", "console=ttyS0 panic=-1 oops=panic quiet",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Count(got, "readonly=on") != 1 {
		t.Errorf("one directory is read-only, not more: %s", got)
	}
}

// TestStatus runs a shell in QEMU's place.
func TestStatus(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	q := &QEMU{argv: []string{sh, "-c", "echo said; exit 85"}}
	p, err := q.Start(&Machine{})
	if err != nil {
		t.Fatal(err)
	}
	if status, out := p.Status(); status != OrderlyExit || out != "said" {
		t.Errorf("got %d, %q", status, out)
	}
	q.argv[2] = "exec sleep 100"
	if p, err = q.Start(&Machine{}); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if status, _ := p.Status(); status != -1 {
		t.Errorf("killed: got %d", status)
	}
}
