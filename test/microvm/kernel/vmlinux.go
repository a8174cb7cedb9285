// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// payloads lists the compressions of a bzImage, with their first bytes and their decompressors.
// The size of the kernel follows as garbage.
var payloads = []struct {
	magic   string
	command []string
}{
	{"\xfd7zXZ\x00", []string{"xz", "-dcq", "--single-stream"}},
	{"\x28\xb5\x2f\xfd", []string{"zstd", "-dcq"}},
	{"\x1f\x8b", []string{"gzip", "-dcq"}},
}

// extract extracts the kernel proper from a bzImage. QEMU can boot it through the PVH entry
// point, so that the guest does not have to decompress it. Decompression takes half of the boot
// time under software emulation.
func extract(ctx context.Context, image string) ([]byte, error) {
	b, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	// Documentation/arch/x86/boot.rst defines setup_sects, payload_offset and payload_length.
	if len(b) < 0x250 || string(b[0x202:0x206]) != "HdrS" || binary.LittleEndian.Uint16(b[0x206:]) < 0x208 {
		return nil, errors.New("not a bzImage with a payload")
	}
	start := (int(b[0x1f1])+1)*512 + int(binary.LittleEndian.Uint32(b[0x248:]))
	end := start + int(binary.LittleEndian.Uint32(b[0x24c:]))
	if start > end || end > len(b) {
		return nil, errors.New("the payload is outside of the image")
	}
	b = b[start:end]
	for _, p := range payloads {
		if !bytes.HasPrefix(b, []byte(p.magic)) {
			continue
		}
		cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
		cmd.Stdin = bytes.NewReader(b)
		out, err := cmd.Output() // fails because of the trailing garbage
		if !pvh(out) {
			return nil, fmt.Errorf("%s produced no kernel with a PVH entry point (%v)", p.command[0], err)
		}
		return out, nil
	}
	return nil, errors.New("the payload has an unknown compression")
}

// pvh reports whether b is a whole ELF kernel with a PVH entry point.
func pvh(b []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return false
	}
	found := false
	for _, p := range f.Progs {
		if p.Off+p.Filesz > uint64(len(b)) {
			return false
		}
		if p.Type == elf.PT_NOTE {
			found = found || pvhNote(b[p.Off:p.Off+p.Filesz])
		}
	}
	return found
}

// pvhNote reports whether the notes contain Xen's note with the entry point.
func pvhNote(notes []byte) bool {
	const physEntry = 18 // XEN_ELFNOTE_PHYS32_ENTRY
	for len(notes) >= 12 {
		name := int(binary.LittleEndian.Uint32(notes)+3) &^ 3
		desc := int(binary.LittleEndian.Uint32(notes[4:])+3) &^ 3
		if len(notes) < 12+name+desc {
			return false
		}
		if binary.LittleEndian.Uint32(notes[8:]) == physEntry && bytes.HasPrefix(notes[12:], []byte("Xen\x00")) {
			return true
		}
		notes = notes[12+name+desc:]
	}
	return false
}
