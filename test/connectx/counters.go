// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// traffic counts frames and their bytes.
type traffic struct{ frames, bytes uint64 }

func (t *traffic) add(n int) {
	t.frames++
	t.bytes += uint64(n)
}

// portCounters contains the counters of a port by kind of destination.
type portCounters struct {
	received, sent         [3]traffic // Ethernet frames
	rdmaReceived, rdmaSent [2]traffic // packets of QPs, which are no broadcasts
}

// packetHeaders is the size in bytes of the headers and checksums of an RDMA packet over IPv4, without
// extended headers.
const packetHeaders = 14 + 20 + 8 + 12 + 4

// addPackets counts packets of QPs, which contain n bytes of data together.
func (t *traffic) addPackets(packets uint32, n uint64) {
	t.frames += uint64(packets)
	t.bytes += uint64(packets)*packetHeaders + n
}

// size returns the number of packets of a message of a connection, and the bytes of their data.
func (m *message) size() (packets uint32, n uint64) {
	if operations[m.opcode].response {
		return 1, 0
	}
	return m.psns, m.length
}

// answerSize returns the number of packets of the answer to a message, and the bytes of their data.
func (m *message) answerSize(a *answer) (packets uint32, n uint64) {
	switch {
	case a.kind == silence:
		return 0, 0
	case a.kind == ack && operations[m.opcode].response:
		return m.psns, m.length
	}
	return 1, 0
}

// Kinds of destination.
const (
	unicastFrames = iota
	multicastFrames
	broadcastFrames
)

// kindOf returns the kind of a frame's destination.
func kindOf(frame []byte) int {
	switch {
	case [6]byte(frame) == broadcast:
		return broadcastFrames
	case frame[0]&1 != 0:
		return multicastFrames
	}
	return unicastFrames
}

// total returns the sum over all kinds.
func total(t *[3]traffic) (sum traffic) {
	for _, k := range t {
		sum.frames += k.frames
		sum.bytes += k.bytes
	}
	return sum
}

// put writes PPCNT's group of the counters of IEEE 802.3. Other groups are zero.
func (c *portCounters) put(b []byte) {
	set := b[8:]
	if prm.PPCNTGroup.Get(b) != prm.PPCNT802_3 {
		clear(set)
		return
	}
	sent, received := total(&c.sent), total(&c.received)
	for i, v := range []uint64{sent.frames, received.frames} {
		binary.BigEndian.PutUint64(set[8*i:], v)
	}
	for i, v := range []uint64{sent.bytes, received.bytes, c.sent[multicastFrames].frames, c.sent[broadcastFrames].frames, c.received[multicastFrames].frames, c.received[broadcastFrames].frames} {
		binary.BigEndian.PutUint64(set[0x20+8*i:], v)
	}
}

// queryVportCounter returns the counters of RDMA packets and of Ethernet frames. The driver makes the port's
// counters in sysfs of them.
func queryVportCounter(d *Device, in, out []byte) error {
	if err := ownVport("QUERY_VPORT_COUNTER", in); err != nil {
		return err
	}
	at := 0x30 // received and sent packets of QPs, unicast and multicast
	put := func(pair ...*traffic) {
		for _, t := range pair {
			binary.BigEndian.PutUint64(out[at:], t.frames)
			binary.BigEndian.PutUint64(out[at+8:], t.bytes)
			at += 16
		}
	}
	c := &d.fw.port.frames
	for _, kind := range []int{unicastFrames, multicastFrames} {
		put(&c.rdmaReceived[kind], &c.rdmaSent[kind])
	}
	for _, kind := range []int{broadcastFrames, unicastFrames, multicastFrames} {
		put(&c.received[kind], &c.sent[kind]) // Ethernet frames
	}
	return nil
}

// qCounter contains counters for the QPs and RQs that refer to it in their contexts.
type qCounter struct {
	n           uint32
	outOfBuffer uint32 // dropped frames without a receive in an RQ
}

var counterCommands = map[uint16]command{
	prm.OpAllocQCounter: {"ALLOC_Q_COUNTER", 16, 16, func(d *Device, _, out []byte) (err error) {
		c := new(qCounter)
		if c.n, err = d.qCounters.add(c); err == nil {
			prm.QCounterOut.ID.Set(out, uint64(c.n))
		}
		return err
	}},
	prm.OpDeallocQCounter: {"DEALLOC_Q_COUNTER", 16, 16, func(d *Device, in, _ []byte) error {
		_, err := d.qCounters.remove(uint32(prm.QCounterIn.ID.Get(in)))
		return err
	}},
	prm.OpQueryQCounter: {"QUERY_Q_COUNTER", 0x20, 0x100, func(d *Device, in, out []byte) error {
		c, err := d.qCounters.find(uint32(prm.QueryQCounterIn.ID.Get(in)))
		if err != nil {
			return err
		}
		prm.QueryQCounterOut.OutOfBuffer.Set(out, uint64(c.outOfBuffer))
		if prm.QueryQCounterIn.Clear.Is(in) {
			c.outOfBuffer = 0
		}
		return nil
	}},
}
