// SPDX-License-Identifier: Apache-2.0

//go:build armbe || arm64be || m68k || mips || mips64 || mips64p32 || ppc || ppc64 || s390 || s390x || shbe || sparc || sparc64

package mlx5

// The device's numbers are big-endian, as this host's are.

func be16(v uint16) uint16 { return v }
func be32(v uint32) uint32 { return v }
func be64(v uint64) uint64 { return v }
