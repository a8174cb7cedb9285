// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"
	"sync/atomic"

	"purerdma/abi"
)

// solicitedOnly is the bit of an arm word that asks for an event of solicited
// completions only.
const solicitedOnly = 1 << 24

// notArmed stands in the arm word of a queue with a completion channel that is not
// armed. No program stores it, so that a device which does not see each store to its
// register still knows whether it was armed again.
const notArmed = ^uint32(0)

// armWord is the place of the arm word.
func (q *CQ) armWord() *uint32 { return abi.View[uint32](q.DB[4:]) }

// notify gives one event, if it was asked for.
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
