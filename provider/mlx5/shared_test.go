// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"encoding/binary"
	"sync"
	"testing"

	"purerdma/provider"
)

// TestSharedRegisters has many QPs post at once, with two goroutines for each QP. Most of the
// QPs share registers. Every request must be in its slot.
func TestSharedRegisters(t *testing.T) {
	const qps, posters, each = 40, 2, 300
	r := newSendRig(t, nil)
	var wg sync.WaitGroup
	for range qps {
		q, dev := r.qp(r.config(provider.RC))
		fillWith(dev.SQ, 0)
		for range posters {
			wg.Go(func() {
				wrs := []provider.SendWR{{Opcode: provider.OpSend, InlineData: make([]byte, 8)}, {Opcode: provider.OpWrite, SGList: sge(8)}}
				for i := range each {
					n := 1 + i%2
					for done := 0; done < n; {
						k, err := q.PostSend(wrs[:n-done])
						if err != nil && err != provider.ErrFull {
							t.Errorf("QP.PostSend: %v, want nil or ErrFull", err)
							return
						}
						if done += k; err != nil {
							complete(q, dev.SQ, uint32(dev.SendCounter())-1)
						}
					}
				}
			})
		}
		t.Cleanup(func() {
			if got, want := dev.SendCounter(), uint16(posters*each*3/2); got != want {
				t.Errorf("SendCounter() = %d, want %d", got, want)
			}
			n := uint32(len(dev.SQ) / wqebb)
			last := uint32(dev.SendCounter())
			for i := last - n; i != last; i++ {
				if got := binary.BigEndian.Uint32(dev.SendWQE(uint16(i), 4)) >> 8 & 0xffff; got != i {
					t.Errorf("index of block %d = %d, want %d", i, got, i)
				}
			}
		})
	}
	wg.Wait()
}

var completing sync.Mutex

// complete acts as a poller, of which there is one at a time. The other poster may have
// completed the request already.
func complete(q *QP, sq []byte, index uint32) {
	completing.Lock()
	defer completing.Unlock()
	if request := q.sq.outstanding(uint16(index)); request != nil {
		q.sq.free(request)
	}
}
