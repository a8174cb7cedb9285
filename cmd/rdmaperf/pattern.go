// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// Seeds of the patterns: what the client sends while it warms up, then what it
// sends when it counts, and what the server sends.
const (
	seedWarm   = 1
	seedClient = 2
	seedServer = 3
)

// fill writes the pattern of a seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = patternByte(i, seed)
	}
}

func patternByte(i, seed int) byte { return byte(i*7 + i>>8 + seed*31) }

// differs says where b is not the pattern of a seed.
func differs(b []byte, seed int) error {
	for i := range b {
		if want := patternByte(i, seed); b[i] != want {
			return fmt.Errorf("byte %d of %d is %#x, not %#x", i, len(b), b[i], want)
		}
	}
	return nil
}

// lastByte reads what the device writes meanwhile: a call that is not inlined is
// a read each time.
//
//go:noinline
func lastByte(b []byte) byte { return b[len(b)-1] }
