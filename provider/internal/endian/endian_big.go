// SPDX-License-Identifier: Apache-2.0

//go:build armbe || arm64be || m68k || mips || mips64 || mips64p32 || ppc || ppc64 || s390 || s390x || shbe || sparc || sparc64

package endian

import "math/bits"

// The functions are described in endian_little.go.

// Big16 converts 16 bits.
func Big16(v uint16) uint16 { return v }

// Big32 converts 32 bits.
func Big32(v uint32) uint32 { return v }

// Big64 converts 64 bits.
func Big64(v uint64) uint64 { return v }

// Little32 converts 32 bits.
func Little32(v uint32) uint32 { return bits.ReverseBytes32(v) }

// Little64 converts 64 bits.
func Little64(v uint64) uint64 { return bits.ReverseBytes64(v) }
