// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"math/rand/v2"

	"purerdma/verbs"
)

// guard is the value of bytes that the device must not change.
const guard = 0xa5

// pattern returns n bytes that depend on a seed, so that data of another message differs.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	fillPattern(b, seed)
	return b
}

func fillPattern(b []byte, seed int) {
	r := rand.NewPCG(uint64(seed), 0x9e3779b97f4a7c15)
	for len(b) >= 8 {
		v := r.Uint64()
		for i := range 8 {
			b[i] = byte(v >> (8 * i))
		}
		b = b[8:]
	}
	for v := r.Uint64(); len(b) > 0; v >>= 8 {
		b[0] = byte(v)
		b = b[1:]
	}
}

// guards returns n bytes of the guard.
func guards(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = guard
	}
	return b
}

// difference describes how two blocks of data differ.
func difference(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	first, differ := -1, 0
	for i := range got {
		if got[i] != want[i] {
			differ++
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return "no difference"
	}
	end := min(len(got), first+16)
	return fmt.Sprintf("%d of %d bytes are wrong, first at %d: % x, want % x", differ, len(got), first, got[first:end], want[first:end])
}

// sizes are the sizes of messages around each limit of a device: elements of a WQE, inline data,
// data in completions, segments of packets, pages.
var sizes = []int{
	0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 28, 31, 32, 33, 44, 47, 48, 63, 64, 65, 95, 127, 128, 129, 255, 256, 257, 511, 512, 513,
	1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 65535, 65536, 65537, 1 << 20,
}

// largest is the largest of sizes.
const largest = 1 << 20

// margin is the memory with guards on both sides of data.
const margin = 64

var opNames = map[verbs.SendOpcode]string{
	verbs.OpSend: "SEND", verbs.OpSendImm: "SEND with immediate", verbs.OpWrite: "WRITE", verbs.OpWriteImm: "WRITE with immediate", verbs.OpRead: "READ",
	verbs.OpCompareSwap: "compare and swap", verbs.OpFetchAdd: "fetch and add", verbs.OpSendInv: "SEND with invalidate", verbs.OpLocalInv: "local invalidate",
	verbs.OpBindMW: "bind",
}

func opName(op verbs.SendOpcode) string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return fmt.Sprintf("operation %d", op)
}
