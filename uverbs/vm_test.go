// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// refusals is what the kernel answers to the calls that rxe does not carry out.
// All others succeed.
var refusals = map[string]error{}

// TestKernelAnswers gives every command to the kernel.
func TestKernelAnswers(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	infos, err := System{}.Devices()
	if err != nil {
		t.Fatal(err)
	}
	var f *File
	for _, info := range infos {
		if info.Name == host.Device {
			if f, err = Open(System{}, info); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer f.Close()
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mem)
	o := &objects{mem: mem}
	defer o.close()
	release := os.Getenv("RDMAVM_KERNEL_RELEASE")
	for _, c := range calls() {
		err := c.run(f, o)
		want := refusals[c.name]
		t.Logf("%-28s %v", c.name, err)
		if !errors.Is(err, want) {
			t.Errorf("%s on Linux %s: %v, want %v", c.name, release, err, want)
		}
		if errors.Is(want, errors.ErrUnsupported) && err != nil && !strings.Contains(err.Error(), "is not supported") {
			t.Errorf("%s: %v does not say what is not supported", c.name, err)
		}
	}
}
