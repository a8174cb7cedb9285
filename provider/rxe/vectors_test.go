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

// vectors names one more file for TestVectors: see test/oracle/README.md.
var vectors = flag.String("vectors", "", "also check this file of vectors")

// TestVectors has the provider repeat the recorded calls to librxe, and compares slots,
// indices, doorbells and completions.
func TestVectors(t *testing.T) {
	d := &replay.Soft{
		Driver: rxe.Driver{},
		Name:   "rxe",
		Slot: func(w *vector.WR, want []byte) {
			// Older versions of librxe number the requests. The kernel ignores the number.
			// librxe also counts the elements that inline data came from.
			abi.View[abi.RxeSendWQE](want).SSN = 0
			if replay.Inlined(w) {
				abi.View[abi.RxeSendWQE](want).DMA.NumSGE = 0
			}
		},
		WC: func(entry []byte, want *vector.WC) {
			// librxe returns the kernel's flags. Its flag for an invalidated key differs from
			// the flag of libibverbs.
			if f := want.Flags; f != nil && *f&4 != 0 {
				flags, key := *f&^4|8, uint64(binary.NativeEndian.Uint32(abi.View[abi.UverbsWC](entry).Ex[:]))
				want.Flags, want.Inv = &flags, &key
			}
		},
	}
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("filepath.Glob = %d files of vectors, %v, want at least 2, nil", len(files), err)
	}
	if *vectors != "" {
		files = append(files, replay.FromRoot(*vectors))
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { d.Run(t, name) })
	}
}
