// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"purerdma/test/microvm/arch"
)

func TestTable(t *testing.T) {
	for _, tt := range []struct{ series, pkg, release string }{
		{"6.1", "linux-image-6.1.0-56-amd64", "6.1.0-56-amd64"},
		{"6.1", "linux-image-6.1.0-56-amd64-dbg", ""},
		{"6.1", "linux-image-6.1.0-56-cloud-amd64", ""},
		{"5.10", "linux-image-5.10.0-46-amd64", "5.10.0-46-amd64"},
		{"5.10", "linux-image-5.10.0-46-cloud-amd64", ""},
		{"6.12", "linux-image-6.12.117+deb13-amd64", "6.12.117+deb13-amd64"},
		{"6.12", "linux-image-6.12.117+deb13-amd64-unsigned", ""},
		{"6.12", "linux-image-6.12.x+deb13-amd64", ""},
		{"6.12", "linux-image-6.12.117+deb13-arm64", "6.12.117+deb13-arm64"},
		{"6.12", "linux-image-6.12.117+deb13-arm64-16k", ""},
		{"6.12-16k", "linux-image-6.12.117+deb13-arm64-16k", "6.12.117+deb13-arm64-16k"},
		{"6.12", "linux-image-6.1.0-56-amd64", ""},
		{"7", "linux-binary-7.3.4+deb13-amd64", "7.3.4+deb13-amd64"},
	} {
		on := arch.AMD64
		if strings.Contains(tt.pkg, arch.ARM64.Name) {
			on = arch.ARM64
		}
		s, err := Find(tt.series, on)
		if err != nil {
			t.Fatalf("Find: %v", err)
		}
		if release, ok := s.release(tt.pkg); ok != (tt.release != "") || ok && release != tt.release {
			t.Errorf("release(%s) = %q, %t, want %q", tt.pkg, release, ok, tt.release)
		}
	}
	if _, err := Find("2.4", arch.AMD64); err == nil {
		t.Error("Find(2.4) = nil error")
	}
	if _, err := Find("6.12-16k", arch.AMD64); err == nil {
		t.Error("Find(6.12-16k) for amd64 = nil error")
	}
	if _, err := FindDriver("mlx4"); err == nil {
		t.Error("FindDriver(mlx4) = nil error")
	}
}

func TestCompare(t *testing.T) {
	if compare("6.1.0-9-amd64", "6.1.0-56-amd64") >= 0 || compare("7.10.1+deb13-amd64", "7.9.12+deb13-amd64") <= 0 {
		t.Error("compare does not compare releases by number")
	}
}

func TestRDMAOrder(t *testing.T) {
	for _, d := range drivers {
		m := RDMA(d)
		if slices.Index(m, "ib_uverbs") > slices.Index(m, "rdma_cm") {
			t.Errorf("RDMA(%s) loads rdma_cm before ib_uverbs", d.Name)
		}
	}
}

func TestClosure(t *testing.T) {
	info := map[string]map[string][]string{
		"a":   {"depends": {"b,c-c"}},
		"b":   {"depends": {"d"}},
		"c_c": {"depends": {"d,b"}},
		"d":   {"depends": {""}},
	}
	got := closure("a", info)
	for name, i := range info {
		for _, list := range i["depends"] {
			for _, d := range splitDepends(list) {
				if name != "a" && slices.Index(got, name) > slices.Index(got, d) {
					t.Errorf("closure = %v, but %s is after %s, which it needs", got, name, d)
				}
			}
		}
	}
	if len(got) != 3 {
		t.Errorf("closure = %v, want 3 modules", got)
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep":     "kernel/a.ko:\nkernel/b-b.ko.xz: kernel/a.ko\nkernel/c.ko: kernel/b-b.ko.xz kernel/a.ko\n",
		"modules.builtin": "kernel/virtio_pci.ko\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	k := &Kernel{Modules: dir}
	got, err := k.Paths([]string{"virtio_pci", "?none", "b_b", "c"})
	if want := []string{"kernel/a.ko", "kernel/b-b.ko.xz", "kernel/c.ko"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Paths = %v, %v, want %v", got, err, want)
	}
	if _, err := k.Paths([]string{"none"}); err == nil {
		t.Error("Paths of a missing module = nil error")
	}
	if p := Plain("x/b-b.ko.xz"); p != "x/b-b.ko" {
		t.Errorf("Plain = %s, want x/b-b.ko", p)
	}
}

func TestWanted(t *testing.T) {
	for name, want := range map[string]bool{
		"boot/vmlinuz-6.1": true,
		"boot/System.map":  false,
		"usr/lib/modules/6.1/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko": true,
		"usr/lib/modules/6.1/kernel/drivers/net/veth.ko":                   true,
		"usr/lib/modules/6.1/kernel/drivers/gpu/drm/drm.ko":                false,
		"usr/lib/modules/6.1/modules.builtin":                              true,
	} {
		if wanted(name) != want {
			t.Errorf("wanted(%s) = %v, want %v", name, !want, want)
		}
	}
}

func TestReadRelease(t *testing.T) {
	b := make([]byte, 0x1000)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20e:], 0x400)
	copy(b[0x600:], "6.1.0-56-amd64 (somebody) #1\x00")
	file := filepath.Join(t.TempDir(), "vmlinuz")
	os.WriteFile(file, b, 0o644)
	if r, err := readRelease(file); r != "6.1.0-56-amd64" || err != nil {
		t.Errorf("readRelease = %q, %v, want 6.1.0-56-amd64", r, err)
	}
	os.WriteFile(file, []byte("#!/bin/sh"), 0o644)
	if _, err := readRelease(file); err == nil {
		t.Error("readRelease of a script = nil error")
	}
}
