// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// Seeds of the patterns: the client's during warm-up, the client's during the measurement, and
// the server's.
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

// differs returns an error that locates the first byte that differs from a seed's pattern.
func differs(b []byte, seed int) error {
	for i := range b {
		if want := patternByte(i, seed); b[i] != want {
			return fmt.Errorf("byte %d of %d is %#x, want %#x", i, len(b), b[i], want)
		}
	}
	return nil
}

// lastByte reads a byte that the device may write concurrently. Because the call is not
// inlined, each call reads memory.
//
// #go:noinline
func lastByte(b []byte) byte { return b[len(b)-1] }
