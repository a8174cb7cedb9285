// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// Completion is a completion with what the device tells beyond a WC (struct
// ibv_cq_ex of ibv_create_cq_ex(3)). In one that failed only the WC counts.
type Completion struct {
	provider.WC
	// Timestamp is when the CQE was made: ticks of the device's free-running clock,
	// whose frequency is the device attribute hca_core_clock; of a CQ with
	// CQOptions.RealTime nanoseconds of its wall clock.
	Timestamp uint64
	// FlowTag is the tag that a flow rule gave a received packet, 24 bits: QPs of type
	// RawPacket.
	FlowTag uint32
	// VLAN is the tag control information that the device has taken off a received
	// packet: QPs of type RawPacket.
	VLAN uint16
	// Hash and Checksum are what the device computed of a received packet: for the
	// spreading over queues, and the ones' complement sum of what follows its Ethernet
	// header. Of completions that were compressed, the one that CQOptions.Compression
	// names is the packet's, the other that of the first of its group.
	Hash     uint32
	Checksum uint16
}

// fill sets the fields beyond the WC from an entry.
func (w *Completion) fill(e unsafe.Pointer) {
	w.Timestamp = load64(e, cqeTimestamp)
	w.FlowTag = load32(e, cqeOpQPN) & 0xffffff
	w.VLAN = load16(e, cqeVLAN)
	w.Hash, w.Checksum = load32(e, cqeHash), load16(e, cqeChecksum)
}

// PollExtended is Poll for completions with all that the device tells.
func (c *CQ) PollExtended(cs []Completion) (int, error) {
	c.acquire()
	n := 0
	for n < len(cs) && len(c.added) > 0 {
		cs[n] = c.nextAdded()
		n++
	}
	// One at a time: the entry is the device's again when publish has been called.
	for n < len(cs) && c.take(unsafe.Slice(&cs[n].WC, 1), 0) == 1 {
		cs[n].fill(c.entry(c.ci - 1))
		n++
	}
	if n == 0 {
		err := c.idle()
		c.release()
		return 0, err
	}
	c.publish()
	c.release()
	return n, nil
}
