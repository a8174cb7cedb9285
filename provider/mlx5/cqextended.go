// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// Completion is a WC with additional fields of the device (struct ibv_cq_ex of
// ibv_create_cq_ex(3)). After a failure only the WC is valid.
type Completion struct {
	provider.WC
	// Timestamp is the time at which the CQE was made, in ticks of the device's free-running clock.
	// The frequency is the device attribute hca_core_clock. With CQOptions.RealTime it is in
	// nanoseconds of the device's wall clock.
	Timestamp uint64
	// FlowTag is the tag that a flow rule assigned to a received packet, 24 bits. It is for QPs of
	// type RawPacket.
	FlowTag uint32
	// VLAN is the tag control information that the device has taken off a received
	// packet: QPs of type RawPacket.
	VLAN uint16
	// Hash and Checksum are computed by the device from a received packet. Hash is used to spread
	// packets over queues. Checksum is the ones' complement sum of the bytes after the packet's
	// Ethernet header. In a compressed completion, only the field that CQOptions.Compression names
	// is the packet's. The other is the field of the first packet of its group.
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

// PollExtended is Poll for completions with all fields of the device.
func (c *CQ) PollExtended(cs []Completion) (int, error) {
	c.acquire()
	n := 0
	// One at a time, because publish returns the entry to the device.
	for n < len(cs) {
		c.given = nil
		if c.take(unsafe.Slice(&cs[n].WC, 1), 0) == 0 {
			break
		}
		if c.given != nil {
			cs[n] = c.given.Completion
		} else {
			cs[n].fill(c.entry(c.ci - 1))
		}
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
