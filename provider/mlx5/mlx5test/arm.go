// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"
	"sync/atomic"

	"purerdma/abi"
)

// solicitedOnly is the bit of an arm word that limits events to solicited completions.
const solicitedOnly = 1 << 24

// notArmed is the arm word of a queue with a completion channel that is not armed. No program
// stores this value. A device that does not observe each store to its register therefore still
// detects whether the program has armed the queue again.
const notArmed = ^uint32(0)

// armWord returns the address of the arm word.
func (q *CQ) armWord() *uint32 { return abi.View[uint32](q.DB[4:]) }

// notify sends one event if the program has armed the queue.
func (q *CQ) notify(solicited bool) {
	if !q.channel.Is() {
		return
	}
	for {
		raw := atomic.LoadUint32(q.armWord())
		if raw == notArmed {
			return
		}
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], raw)
		if binary.BigEndian.Uint32(b[:])&solicitedOnly != 0 && !solicited {
			return
		}
		if atomic.CompareAndSwapUint32(q.armWord(), raw, notArmed) {
			q.channel.Complete(&q.event)
			return
		}
	}
}
