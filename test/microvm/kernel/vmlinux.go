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

// payloads are the compressions of a bzImage: how each begins, and what
// inflates it. The size of the kernel follows as garbage.
var payloads = []struct {
	magic   string
	command []string
}{
	{"\xfd7zXZ\x00", []string{"xz", "-dcq", "--single-stream"}},
	{"\x28\xb5\x2f\xfd", []string{"zstd", "-dcq"}},
	{"\x1f\x8b", []string{"gzip", "-dcq"}},
}

// extract takes the kernel proper out of a bzImage. QEMU can boot that, by
// the PVH entry point, and the guest need not inflate itself: under software
// emulation that is half of the time of a boot.
func extract(ctx context.Context, image string) ([]byte, error) {
	b, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	// See Documentation/arch/x86/boot.rst: setup_sects, payload_offset,
	// payload_length.
	if len(b) < 0x250 || string(b[0x202:0x206]) != "HdrS" || binary.LittleEndian.Uint16(b[0x206:]) < 0x208 {
		return nil, errors.New("not a bzImage with a payload")
	}
	start := (int(b[0x1f1])+1)*512 + int(binary.LittleEndian.Uint32(b[0x248:]))
	end := start + int(binary.LittleEndian.Uint32(b[0x24c:]))
	if start > end || end > len(b) {
		return nil, errors.New("the payload lies outside the image")
	}
	b = b[start:end]
	for _, p := range payloads {
		if !bytes.HasPrefix(b, []byte(p.magic)) {
			continue
		}
		cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
		cmd.Stdin = bytes.NewReader(b)
		out, err := cmd.Output() // fails because of the garbage behind
		if !pvh(out) {
			return nil, fmt.Errorf("%s leaves no kernel with a PVH entry point (%v)", p.command[0], err)
		}
		return out, nil
	}
	return nil, errors.New("the payload is compressed in an unknown way")
}

// pvh says whether b is a whole ELF kernel with a PVH entry point.
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

// pvhNote looks for Xen's note that tells the entry point.
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
