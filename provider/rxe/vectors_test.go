// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rxe_test

import (
	"encoding/binary"
	"testing"

	"purerdma/abi"
	"purerdma/provider/rxe"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// librxe replays the vectors of librxe.
var librxe = &replay.Driver{
	Driver: rxe.Driver{},
	Name:   "rxe",
	Known: []replay.Known{
		// The inline data. libibverbs has the kernel write its response over the input, which the oracle records afterwards.
		{Command: replay.CreateQP, Attr: abi.UVERBS_ATTR_CREATE_QP_CAP, From: 16, To: 20},
	},
	Start: (&replay.Soft{
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
	}).Start,
}

// TestVectors compares slots, indices, doorbells, inputs of commands and completions with librxe's.
func TestVectors(t *testing.T) { replay.Run(t, librxe) }

// TestVectorsDetect checks that TestVectors detects a change of one bit.
func TestVectorsDetect(t *testing.T) { replay.Detects(t, librxe) }
