// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestExtra(t *testing.T) {
	k := &Kernel{Modules: modules(t, "kernel/core.ko: kernel/net.ko\nkernel/net.ko:\nkernel/crc-c.ko:\n")}
	file := filepath.Join(t.TempDir(), "siw.ko")
	write(t, file, string(module("license=GPL\x00depends=core,virtio_pci,crc_c\x00alias=rdma-link-siw\x00")))
	if k.has("siw") || !k.has("core") || !k.has("virtio-pci") {
		t.Error("has returned a wrong answer before add")
	}
	k.add(file)
	got, err := k.Paths([]string{"siw", "core"})
	if want := []string{"kernel/crc-c.ko", "kernel/net.ko", "kernel/core.ko", "extra/siw.ko"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Paths = %v, %v, want %v", got, err, want)
	}
	before, err := k.State()
	if err != nil {
		t.Fatalf("k.State: %v", err)
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatalf("os.Chtimes: %v", err)
	}
	if after, err := k.State(); after == before || err != nil {
		t.Errorf("State after a module was rebuilt = %q, %v, want another state", after, err)
	}
	if !k.has("siw") || k.file("extra/siw.ko") != file || k.file("kernel/net.ko") != filepath.Join(k.Modules, "kernel/net.ko") {
		t.Errorf("after add: has = %v, file = %s", k.has("siw"), k.file("extra/siw.ko"))
	}
}

// module returns an ELF file that contains only a .modinfo section.
func module(modinfo string) []byte {
	const names = "\x00.modinfo\x00.shstrtab\x00"
	const head, section = 64, 64 // sizes
	h := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Ehsize: head, Shoff: head, Shentsize: section, Shnum: 3, Shstrndx: 2,
	}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	data := uint64(head + 3*section)
	sections := []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: data, Size: uint64(len(modinfo))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: data + uint64(len(modinfo)), Size: uint64(len(names))},
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h)
	binary.Write(&b, binary.LittleEndian, sections)
	b.WriteString(modinfo + names)
	return b.Bytes()
}
