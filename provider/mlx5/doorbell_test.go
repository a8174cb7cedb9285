// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"encoding/binary"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// TestDoorbellRecord posts where the block index exceeds 16 bits, at every position of the
// ring. The record must contain the low 16 bits of the index, and zeros above them. The test
// also posts requests that continue at the start of the ring, and uses a register that QPs
// share.
func TestDoorbellRecord(t *testing.T) {
	for name, legacy := range map[string]bool{"own": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			r := newSendRig(t, func(k *mlx5test.Kernel) { k.LegacyUAR = legacy })
			q, dev := r.qp(r.config(provider.RC))
			inline := provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 200)} // four blocks
			for block := uint32(1<<17 - 4); block < 1<<17+q.sq.mask+4; block++ {
				atBlock(t, r, q, dev, block)
				post(t, q, inline)
				q.sq.tail = q.sq.head
				want := (block + 4) & 0xffff
				if got := binary.BigEndian.Uint32(dev.DB[4:]); got != want {
					t.Fatalf("record = %#x after the request at block %#x, want %#x", got, block, want)
				}
				atBlock(t, r, q, dev, block)
				post(t, q, inline, inline)
				q.sq.tail = q.sq.head
				if got := binary.BigEndian.Uint32(dev.DB[4:]); got != (block+8)&0xffff {
					t.Fatalf("record = %#x after two requests from block %#x, want %#x", got, block, (block+8)&0xffff)
				}
			}
		})
	}
}
