// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rxe_test

import (
	"encoding/binary"
	"flag"
	"path/filepath"
	"testing"

	"purerdma/abi"
	"purerdma/provider/rxe"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// vectors is a further file for TestVectors: see test/oracle/README.md.
var vectors = flag.String("vectors", "", "check this file of vectors, too")

// TestVectors has the provider do what librxe did, and compares slots, indices,
// doorbells and completions.
func TestVectors(t *testing.T) {
	d := &replay.Soft{
		Driver: rxe.Driver{},
		Name:   "rxe",
		Slot: func(w *vector.WR, want []byte) {
			// Up to some version librxe counts requests, of which the kernel takes no
			// notice; and it counts the elements that inline data came from.
			abi.View[abi.RxeSendWQE](want).SSN = 0
			if replay.Inlined(w) {
				abi.View[abi.RxeSendWQE](want).DMA.NumSGE = 0
			}
		},
		WC: func(entry []byte, want *vector.WC) {
			// librxe hands out the kernel's flags, of which that of an invalidated key is
			// another than libibverbs'.
			if f := want.Flags; f != nil && *f&4 != 0 {
				flags, key := *f&^4|8, uint64(binary.NativeEndian.Uint32(abi.View[abi.UverbsWC](entry).Ex[:]))
				want.Flags, want.Inv = &flags, &key
			}
		},
	}
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files of vectors: %v", len(files), err)
	}
	if *vectors != "" {
		files = append(files, replay.FromRoot(*vectors))
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { d.Run(t, name) })
	}
}
