// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"bytes"
	"slices"
	"testing"

	"purerdma/test/ethernet"
	"purerdma/test/pci"
)

// card has rings of Ethernet.
type card struct {
	*rig
	tx, rx, more   uint16
	txAddr, rxAddr uint64
	moreAddr       uint64
	completions    [2]uint16 // of the transmit ring and of the receive ring
	completionAddr [2]uint64
	completionCI   [2]uint32
	txPI           uint32
	vnic           uint32
	buffers        uint64
	statistics     uint64
	mac            [6]byte
}

const (
	cardDepth  = 32
	bufferSize = 1536
	moreSize   = 4096
)

// newCard creates a device whose port accepts frames to its address and broadcasts.
func newCard(t *testing.T, r *rig) *card {
	t.Helper()
	c := &card{rig: r, mac: r.d.mac}
	c.statistics = r.alloc(statisticsSize)
	stats := le.Uint32(r.hwrm(0xb0, func(in []byte) {
		le.PutUint64(in[0x10:], c.statistics)
		le.PutUint16(in[0x1e:], statisticsSize)
	})[8:])
	for i := range c.completions {
		c.completionAddr[i] = r.alloc(cardDepth * entrySize)
		c.completions[i] = r.ring(ringCompletion, c.completionAddr[i], cardDepth, 0, func(in []byte) {
			le.PutUint32(in[0x10:], validNQ)
			le.PutUint16(in[0x36:], r.nq)
			le.PutUint64(in[0x50:], uint64(i))
		})
	}
	withStatistics := func(in []byte) { le.PutUint32(in[0x40:], stats) }
	c.txAddr = r.alloc(cardDepth * entrySize)
	c.tx = r.ring(ringTx, c.txAddr, cardDepth, 0, withStatistics, func(in []byte) { le.PutUint16(in[0x2e:], c.completions[0]) })
	c.rxAddr, c.moreAddr, c.buffers = r.alloc(cardDepth*entrySize), r.alloc(cardDepth*entrySize), r.alloc(cardDepth*(bufferSize+moreSize))
	c.rx = r.ring(ringRx, c.rxAddr, cardDepth, 0, withStatistics, func(in []byte) { le.PutUint16(in[0x32:], bufferSize) })
	c.more = r.ring(ringAggregate, c.moreAddr, cardDepth, 0, func(in []byte) {
		le.PutUint32(in[0x10:], validRxRing)
		le.PutUint16(in[0x32:], moreSize)
		le.PutUint16(in[0x34:], c.rx)
	})
	for i := range uint64(cardDepth) {
		b := r.bytes(c.rxAddr+i*entrySize, entrySize)
		le.PutUint32(b[4:], uint32(i))
		le.PutUint64(b[8:], c.buffers+i*bufferSize)
		b = r.bytes(c.moreAddr+i*entrySize, entrySize)
		le.PutUint32(b[4:], uint32(0x100+i))
		le.PutUint64(b[8:], c.buffers+cardDepth*bufferSize+i*moreSize)
	}
	c.vnic = le.Uint32(r.hwrm(0x40, nil)[8:])
	c.configure(0)
	r.hwrm(0x90, func(in []byte) {
		le.PutUint32(in[0x14:], 0x8003)
		copy(in[0x18:], c.mac[:])
		le.PutUint16(in[0x4e:], uint16(c.vnic))
	})
	r.hwrm(0x93, func(in []byte) {
		le.PutUint32(in[0x10:], c.vnic)
		le.PutUint32(in[0x14:], maskBroadcast)
	})
	r.ringL2(doorbellSRQ, c.rx, cardDepth-1)
	r.ringL2(doorbellSRQ, c.more, cardDepth-1)
	return c
}

// configure sets the flags of the VNIC.
func (c *card) configure(flags uint32) {
	c.t.Helper()
	c.hwrm(0x42, func(in []byte) {
		le.PutUint32(in[0x10:], flags)
		le.PutUint32(in[0x14:], 0x70)
		le.PutUint16(in[0x18:], uint16(c.vnic))
		le.PutUint16(in[0x22:], maxMTU+frameOverhead)
		le.PutUint16(in[0x24:], c.rx)
		le.PutUint16(in[0x26:], c.completions[1])
	})
}

// transmit posts a request with pieces of memory, and the words of its extension.
func (c *card) transmit(ext [4]uint32, pieces ...[]byte) {
	c.t.Helper()
	c.put(ext, pieces...)
	c.ringL2(doorbellSQ, c.tx, c.txPI%cardDepth)
}

// put puts a request into the transmit ring, without a doorbell.
func (c *card) put(ext [4]uint32, pieces ...[]byte) {
	c.t.Helper()
	for i, p := range pieces {
		addr := c.alloc(uint64(len(p)))
		copy(c.bytes(addr, len(p)), p)
		b := c.bytes(c.txAddr+uint64(c.txPI%cardDepth)*entrySize, entrySize)
		flags := uint32(len(p)) << 16
		if i == 0 {
			flags |= txLong | uint32(len(pieces)+1)<<8
		}
		if i == len(pieces)-1 {
			flags |= txEnd
		}
		le.PutUint32(b, flags)
		le.PutUint32(b[4:], 0x7700+c.txPI)
		le.PutUint64(b[8:], addr)
		c.txPI++
		if i == 0 {
			b = c.bytes(c.txAddr+uint64(c.txPI%cardDepth)*entrySize, entrySize)
			for j, w := range ext {
				le.PutUint32(b[4*j:], w)
			}
			c.txPI++
		}
	}
}

// completion returns the next entry of a completion ring, or nil.
func (c *card) completion(i int) []byte {
	e := c.bytes(c.completionAddr[i]+uint64(c.completionCI[i]%cardDepth)*entrySize, entrySize)
	if e[8]&1 == uint8(c.completionCI[i]/cardDepth%2) {
		return nil
	}
	c.completionCI[i]++
	return e
}

// receive returns the next received frame, with the entries of its completion.
func (c *card) receive() (frame []byte, e, ext []byte) {
	c.t.Helper()
	if e = c.completion(1); e == nil {
		return nil, nil, nil
	}
	if ext = c.completion(1); ext == nil || e[0]&0x3f != completeRx && e[0]&0x3f != completeRxP7 {
		c.t.Fatalf("completion %x %x, want one of a frame", e, ext)
	}
	frame = bytes.Clone(c.bytes(c.buffers+uint64(le.Uint32(e[4:]))*bufferSize, int(le.Uint16(e[2:]))))
	for range le.Uint32(e[8:]) >> 1 & 31 {
		m := c.completion(1)
		if m == nil || m[0] != completeAggregate {
			c.t.Fatalf("completion %x, want one of another buffer", m)
		}
		at := c.buffers + cardDepth*bufferSize + uint64(le.Uint32(m[4:])-0x100)*moreSize
		frame = append(frame, c.bytes(at, int(le.Uint16(m[2:])))...)
	}
	c.ringL2(doorbellCQ, c.completions[1], c.completionCI[1]%cardDepth)
	return frame, e, ext
}

// frame returns a frame of UDP or TCP over IPv4 without checksums.
func frame(to, from [6]byte, proto byte, data []byte) []byte {
	l4 := make([]byte, 8)
	if proto == ethernet.TCP {
		l4 = make([]byte, 20)
		l4[12] = 5 << 4
	} else {
		be.PutUint16(l4[4:], uint16(8+len(data)))
	}
	be.PutUint16(l4, 1000)
	be.PutUint16(l4[2:], 2000)
	ip := []byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	be.PutUint16(ip[2:], uint16(len(ip)+len(l4)+len(data)))
	return slices.Concat(to[:], from[:], []byte{8, 0}, ip, l4, data)
}

// cards returns two devices on one fabric.
func cards(t *testing.T) (a, b *card) { return cardsOn(t, New()) }

// cardsOn returns two devices on a fabric.
func cardsOn(t *testing.T, f pci.Fabric) (a, b *card) {
	return newCard(t, newRig(t, f)), newCard(t, newRig(t, f))
}

func TestFrames(t *testing.T) {
	a, b := cards(t)
	for i := range 3 * cardDepth {
		sent := frame(b.mac, a.mac, ethernet.UDP, bytes.Repeat([]byte{byte(i)}, 20+40*i))
		a.transmit([4]uint32{txIPChecksum | txL4Checksum}, sent[:50], sent[50:])
		if e := a.completion(0); e == nil || le.Uint32(e[4:]) != 0x7700+a.txPI-3 {
			t.Fatalf("frame %d: completion %x, want the first descriptor's", i, e)
		}
		a.ringL2(doorbellCQ, a.completions[0], a.completionCI[0]%cardDepth)
		got, e, ext := b.receive()
		if len(got) != len(sent) || !bytes.Equal(got[42:], sent[42:]) {
			t.Fatalf("frame %d of %d bytes arrived with %d bytes", i, len(sent), len(got))
		}
		if h, _ := ethernet.Parse(got); h.L4 == nil {
			t.Fatalf("frame %d has no UDP", i)
		} else if ok3, ok4 := h.Verify(); !ok3 || !ok4 {
			t.Errorf("frame %d: checksums = %v, %v, want correct ones", i, ok3, ok4)
		}
		if flags := le.Uint32(ext); flags&(rxIPChecked|rxL4Checked) != rxIPChecked|rxL4Checked || le.Uint32(ext[8:])>>1 != 0 {
			t.Errorf("frame %d: flags %#x and errors %#x, want checked ones", i, flags, le.Uint32(ext[8:]))
		}
		if kind := le.Uint32(e) >> 12 & 15; kind != 3 {
			t.Errorf("frame %d: type %d, want UDP", i, kind)
		}
		b.ringL2(doorbellSRQ, b.rx, (b.d.rxs[b.rx].ci+cardDepth-1)%cardDepth)
		b.ringL2(doorbellSRQ, b.more, (b.d.rxs[b.more].ci+cardDepth-1)%cardDepth)
	}
	if n := le.Uint64(a.bytes(a.statistics+countTx, 8)); n != 3*cardDepth {
		t.Errorf("%d sent frames in the statistics, want %d", n, 3*cardDepth)
	}
	if n := le.Uint64(b.bytes(b.statistics+countRx, 8)); n != 3*cardDepth {
		t.Errorf("%d received frames in the statistics, want %d", n, 3*cardDepth)
	}
}

// TestFilters sends frames that a port takes and frames that it does not take.
func TestFilters(t *testing.T) {
	a, b := cards(t)
	group := [6]byte{1, 0, 0x5e, 0, 0, 1}
	arrives := func(to [6]byte) bool {
		a.transmit([4]uint32{}, frame(to, a.mac, ethernet.UDP, []byte("x")))
		got, _, _ := b.receive()
		return got != nil
	}
	for to, want := range map[[6]byte]bool{b.mac: true, {2, 2, 2, 2, 2, 2}: false, {255, 255, 255, 255, 255, 255}: true, group: false} {
		if got := arrives(to); got != want {
			t.Errorf("a frame to %x arrives = %v, want %v", to, got, want)
		}
	}
	list := b.alloc(pageSize)
	copy(b.bytes(list, 6), group[:])
	b.hwrm(0x93, func(in []byte) {
		le.PutUint32(in[0x10:], b.vnic)
		le.PutUint32(in[0x14:], maskGroups)
		le.PutUint64(in[0x18:], list)
		le.PutUint32(in[0x20:], 1)
	})
	if !arrives(group) {
		t.Errorf("a frame to the group %x is lost", group)
	}
}

// TestSegments lets the device cut a message into segments.
func TestSegments(t *testing.T) {
	a, b := cards(t)
	data := make([]byte, 2500)
	fill(data, 4)
	whole := frame(b.mac, a.mac, ethernet.TCP, data)
	a.transmit([4]uint32{txSegments | 54/2<<16, 1000}, whole[:54], whole[54:])
	var got []byte
	for range 3 {
		f, _, ext := b.receive()
		if f == nil || le.Uint32(ext[8:])>>1 != 0 {
			t.Fatalf("segment %x with errors %x, want a correct one", f, ext)
		}
		got = append(got, f[54:]...)
	}
	if !bytes.Equal(got, data) {
		t.Error("the data differ")
	}
}

// TestVLAN lets the devices insert and strip tags.
func TestVLAN(t *testing.T) {
	a, b := cards(t)
	sent := frame(b.mac, a.mac, ethernet.UDP, []byte("tagged"))
	send := func() (frame, ext []byte) {
		a.transmit([4]uint32{txIPChecksum | txL4Checksum, 0, 0, 1<<28 | 0x2005}, sent)
		frame, _, ext = b.receive()
		return frame, ext
	}
	if got, _ := send(); len(got) != len(sent)+4 || !bytes.Equal(got[12:16], []byte{0x81, 0, 0x20, 5}) {
		t.Errorf("frame %x, want one with a tag", got)
	}
	b.configure(0x2)
	if got, ext := send(); len(got) != len(sent) || le.Uint32(ext)&rxVLAN == 0 || le.Uint32(ext[4:]) != 0x8100_2005 {
		t.Errorf("frame %x with %x, want one without its tag", got, ext)
	}
}

// TestRSS distributes frames over two rings by their hash.
func TestRSS(t *testing.T) {
	a, b := cards(t)
	context := le.Uint16(b.hwrm(0x70, nil)[8:])
	table, key := b.alloc(pageSize), b.alloc(pageSize)
	fill(b.bytes(key, 40), 77)
	other := b.ring(ringRx, b.alloc(cardDepth*entrySize), cardDepth, 0, func(in []byte) { le.PutUint16(in[0x32:], bufferSize) })
	for i := range uint64(hashTable) {
		ring := b.rx
		if i%2 == 1 {
			ring = other
		}
		le.PutUint16(b.bytes(table+4*i, 2), ring)
		le.PutUint16(b.bytes(table+4*i+2, 2), b.completions[1])
	}
	b.hwrm(0x46, func(in []byte) {
		le.PutUint32(in[0x10:], 0x3f)
		le.PutUint16(in[0x14:], uint16(b.vnic))
		le.PutUint64(in[0x18:], table)
		le.PutUint64(in[0x20:], key)
		le.PutUint16(in[0x28:], context)
	})
	arrived := 0
	for i := range 20 {
		f := frame(b.mac, a.mac, ethernet.UDP, []byte("x"))
		be.PutUint16(f[34:], uint16(i))
		a.transmit([4]uint32{}, f)
		if a.txPI > 10 {
			a.completion(0)
			a.ringL2(doorbellCQ, a.completions[0], a.completionCI[0]%cardDepth)
		}
		if got, e, _ := b.receive(); got != nil {
			arrived++
			if hash := le.Uint32(e[12:]); le.Uint32(e)&rxHashed == 0 || hash%2 != 0 {
				t.Errorf("completion %x, want an even hash", e)
			}
		}
	}
	if arrived == 0 || arrived == 20 {
		t.Errorf("%d of 20 frames arrived at the first ring, want some", arrived)
	}
}

// TestPortStatistics sends requests with and without completions, and reads the counters of the
// ports.
func TestPortStatistics(t *testing.T) {
	a, b := cards(t)
	sent := frame(b.mac, a.mac, ethernet.UDP, []byte("counted"))
	a.transmit([4]uint32{}, sent)
	a.completion(0)
	first := a.bytes(a.txAddr+uint64(a.txPI)*entrySize, entrySize)
	a.put([4]uint32{}, sent)
	le.PutUint32(first, le.Uint32(first)|txNoCompletion)
	a.ringL2(doorbellSQ, a.tx, a.txPI%cardDepth)
	if e := a.completion(0); e != nil {
		t.Errorf("completion %x of a request without one", e)
	}
	statistics := func(c *card) (tx, rx []byte) {
		at := c.alloc(pageSize)
		c.hwrm(0x23, func(in []byte) {
			le.PutUint64(in[0x18:], at)
			le.PutUint64(in[0x20:], at+0x800)
		})
		return c.bytes(at, 0x198), c.bytes(at+0x800, 0x210)
	}
	tx, _ := statistics(a)
	_, rx := statistics(b)
	for name, n := range map[string]uint64{"sent": le.Uint64(tx[0x60:]), "sent unicast": le.Uint64(tx[0x68:]), "received": le.Uint64(rx[0x58:])} {
		if n != 2 {
			t.Errorf("%d %s frames, want 2", n, name)
		}
	}
	if n := le.Uint64(rx[0x1e8:]); n != 2*uint64(len(sent)) {
		t.Errorf("%d received bytes, want %d", n, 2*len(sent))
	}
}

// TestCompletionOfACommand frees a ring, with a completion on its completion ring.
func TestCompletionOfACommand(t *testing.T) {
	c := newCard(t, newRig(t, nil))
	c.hwrm(0x51, func(in []byte) {
		le.PutUint16(in[2:], c.completions[0])
		in[0x10] = ringTx
		le.PutUint16(in[0x12:], c.tx)
	})
	e := c.bytes(c.completionAddr[0], entrySize)
	if le.Uint16(e) != 0x20 || le.Uint16(e[2:]) != c.seq || e[8]&1 != 1 {
		t.Errorf("completion %x, want one of command %d", e, c.seq)
	}
}

// TestFreedRings rings the doorbells of freed rings, as a poll of the driver on another processor does.
func TestFreedRings(t *testing.T) {
	r := newRig(t, New())
	queue := r.ring(ringNotify, r.alloc(cardDepth*entrySize), cardDepth, 0)
	completions := r.ring(ringCompletion, r.alloc(cardDepth*entrySize), cardDepth, 0, func(in []byte) {
		le.PutUint32(in[0x10:], validNQ)
		le.PutUint16(in[0x36:], queue)
	})
	tx := r.ring(ringTx, r.alloc(cardDepth*entrySize), cardDepth, 0, func(in []byte) { le.PutUint16(in[0x2e:], completions) })
	rx := r.ring(ringRx, r.alloc(cardDepth*entrySize), cardDepth, 0, func(in []byte) { le.PutUint16(in[0x32:], bufferSize) })
	other := r.ring(ringNotify, r.alloc(cardDepth*entrySize), cardDepth, 0)
	free := func(kind uint8, n uint16) {
		r.hwrm(0x51, func(in []byte) { in[0x10] = kind; le.PutUint16(in[0x12:], n) })
	}
	free(ringTx, tx)
	free(ringRx, rx)
	free(ringCompletion, completions)
	free(ringNotify, queue)
	free(ringNotify, other)
	r.ringL2(doorbellSRQ, rx, 1)
	r.ringL2(doorbellCQArmAll, completions, 1)
	r.ringDoorbell(0, doorbellNQArm, uint32(queue), 1)
	if len(r.violations) > 0 {
		t.Fatalf("violations = %v, want none", r.violations)
	}
	r.tolerant = true
	r.ringL2(doorbellSQ, tx, 1)
	r.reported(t, "no ring")
	r.violations = nil
	r.ringDoorbell(0, doorbellNQArm, uint32(other), 1) // of RDMA, whose driver waits for its interrupts first
	r.reported(t, "there is no notification queue")
}
