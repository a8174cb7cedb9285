// SPDX-License-Identifier: Apache-2.0

// Package arch describes the processor architectures of virtual machines.
package arch

import (
	"fmt"
	"runtime"
)

// An Arch is a processor architecture.
type Arch struct {
	Name     string // of Go and of Debian
	Triplet  string // names Debian's directory of libraries, and its compiler
	Linker   string // file name of the dynamic linker
	Emulator string // program of QEMU
	Package  string // Debian package of the emulator
}

// AMD64 and ARM64 are the supported architectures.
var (
	AMD64 = &Arch{
		Name: "amd64", Triplet: "x86_64-linux-gnu", Linker: "ld-linux-x86-64.so.2",
		Emulator: "qemu-system-x86_64", Package: "qemu-system-x86",
	}
	ARM64 = &Arch{
		Name: "arm64", Triplet: "aarch64-linux-gnu", Linker: "ld-linux-aarch64.so.1",
		Emulator: "qemu-system-aarch64", Package: "qemu-system-arm",
	}
)

// Find returns the architecture with a name.
func Find(name string) (*Arch, error) {
	for _, a := range []*Arch{AMD64, ARM64} {
		if a.Name == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("-arch %s: want %s or %s", name, AMD64.Name, ARM64.Name)
}

// Suffix ends the names of the cache's directories and of programs for the architecture. It is "" for amd64.
func (a *Arch) Suffix() string {
	if a == AMD64 {
		return ""
	}
	return "-" + a.Name
}

// Native reports whether this machine has the architecture.
func (a *Arch) Native() bool { return a.Name == runtime.GOARCH }
