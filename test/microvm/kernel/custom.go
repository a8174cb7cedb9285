// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Custom returns the kernel in the file image, a bzImage, with the modules in the directory
// modules. If modules is "", it uses the standard directory of the kernel's release.
func Custom(image, modules string) (*Kernel, error) {
	release, err := readRelease(image)
	if err != nil {
		return nil, fmt.Errorf("RDMAVM_KERNEL=%s: %w", image, err)
	}
	if modules == "" {
		modules = filepath.Join("/lib/modules", release)
	}
	k := &Kernel{Release: release, Image: image, Modules: modules, custom: true}
	for _, f := range []string{"modules.dep", "modules.builtin"} {
		if _, err := os.Stat(filepath.Join(modules, f)); err != nil {
			return nil, fmt.Errorf("RDMAVM_KERNEL=%s: its modules (Linux %s): %w (set RDMAVM_MODULES to their directory, which needs the files of depmod)", image, release, err)
		}
	}
	return k, nil
}

// readRelease reads a kernel's release from the header of its image.
// Documentation/arch/x86/boot.rst defines the header.
func readRelease(image string) (string, error) {
	f, err := os.Open(image)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return "", err
	}
	head = head[:n]
	if n < 0x210 || string(head[0x202:0x206]) != "HdrS" {
		return "", fmt.Errorf("not a bzImage")
	}
	off := int(binary.LittleEndian.Uint16(head[0x20e:])) + 0x200
	if off == 0x200 || off >= n {
		return "", fmt.Errorf("the image does not contain its release")
	}
	text, _, _ := strings.Cut(string(head[off:]), "\x00")
	release, _, _ := strings.Cut(text, " ")
	return release, nil
}
