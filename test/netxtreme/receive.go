// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "purerdma/test/ethernet"

// rxRing is a receive ring.
type rxRing struct {
	queue
	size       int         // bytes of a buffer
	more       *rxRing     // ring of further buffers of a frame, or nil
	statistics *statistics // or nil
}

// ring takes posted buffers up to an index.
func (r *rxRing) ring(index uint32) {
	if index >= r.depth {
		r.d.violation(r.name(), "a doorbell with index %#x of %#x descriptors", index, r.depth)
		return
	}
	// The driver posts as many buffers as the device has used.
	r.pi = r.advanced(r.ci, index)
}

// buffer is a posted buffer.
type buffer struct {
	memory []byte
	opaque uint32
}

// take takes the posted buffers for n bytes. It returns nil without enough of them.
func (r *rxRing) take(n int) (list []buffer) {
	at := r.ci
	for n > 0 || list == nil {
		if at == r.pi || len(list) == maxBuffers {
			return nil
		}
		b := r.entry(at)
		if b == nil {
			r.d.violation(r.name(), "the host has removed its memory")
			return nil
		}
		size := min(n, r.size)
		memory := r.d.mem.Bytes(le.Uint64(b[8:]), size)
		if memory == nil {
			r.d.violation(r.name(), "descriptor %#x: %d bytes at %#x", at, size, le.Uint64(b[8:]))
			return nil
		}
		list = append(list, buffer{memory, le.Uint32(b[4:])})
		n -= size
		at++
	}
	r.ci = at
	return list
}

// maxBuffers is the maximum number of further buffers of a frame.
const maxBuffers = 31

// Bits of receive completions.
const (
	completeRx        = 17
	completeRxP7      = 23
	completeAggregate = 18

	rxHashed = 1 << 10

	rxIPChecked = 1 << 0 // second entry
	rxL4Checked = 1 << 1
	rxVLAN      = 1 << 4
	rxIPv6      = 1 << 8

	rxIPWrong = 1 << 4 // errors
	rxL4Wrong = 1 << 5
)

// receiveFrame handles a frame from the wire.
func (d *Device) receiveFrame(frame []byte) {
	h, ok := ethernet.Parse(frame)
	if !ok || d.down {
		return
	}
	for _, v := range d.vnics {
		if v.accepts(frame) {
			d.received.add(frame)
			v.receive(&h)
		}
	}
}

// receive stores a frame in the buffers of a receive ring.
func (v *vnic) receive(h *ethernet.Headers) {
	r, c, hash := v.ringFor(h)
	if r == nil || c == nil {
		return
	}
	var e, ext [entrySize]byte
	frame := h.Frame
	flags2 := v.describe(h, &e, &ext)
	kind := uint32(completeRx)
	if v.d.p7() {
		kind = completeRxP7
	}
	if h.VLAN != nil && v.stripVLAN {
		frame = append(append([]byte(nil), frame[:12]...), frame[12+ethernet.VLANLen:]...)
		tag := uint32(be.Uint16(h.VLAN))
		if v.d.p7() {
			const valid, tpid8021Q = 8 << 28, 1 << 28
			le.PutUint32(e[8:], valid|tpid8021Q)
			le.PutUint32(ext[8:], le.Uint32(ext[8:])|tag<<16)
		} else {
			flags2 |= rxVLAN
			le.PutUint32(ext[4:], ethernet.TypeVLAN<<16|tag)
		}
	}
	le.PutUint32(ext[:], flags2)
	if len(frame) > v.mru {
		r.statistics.dropped()
		return
	}
	first := r.take(min(len(frame), r.size))
	var more []buffer
	if rest := len(frame) - r.size; rest > 0 && first != nil && r.more != nil {
		more = r.more.take(rest)
	}
	if first == nil || len(frame) > r.size && more == nil {
		if first != nil {
			r.ci--
		}
		r.statistics.dropped()
		return
	}
	rest := frame[copy(first[0].memory, frame):]
	le.PutUint32(e[:], le.Uint32(e[:])|kind|uint32(len(first[0].memory))<<16)
	le.PutUint32(e[4:], first[0].opaque)
	le.PutUint32(e[8:], le.Uint32(e[8:])|uint32(len(more))<<1)
	if hash != 0 {
		le.PutUint32(e[:], le.Uint32(e[:])|rxHashed)
		le.PutUint32(e[12:], hash)
	}
	entries := [][entrySize]byte{e, ext}
	for _, b := range more {
		rest = rest[copy(b.memory, rest):]
		var a [entrySize]byte
		le.PutUint32(a[:], completeAggregate|uint32(len(b.memory))<<16)
		le.PutUint32(a[4:], b.opaque)
		entries = append(entries, a)
	}
	r.statistics.received(frame)
	c.complete(entries...)
}

// describe fills in the fields for the headers of a frame. It returns the flags of the second
// entry.
func (v *vnic) describe(h *ethernet.Headers, e, ext *[entrySize]byte) (flags2 uint32) {
	const typeIP, typeTCP, typeUDP = 1 << 12, 2 << 12, 3 << 12
	if h.Version == 0 {
		return 0
	}
	kind, wrong := uint32(typeIP), uint32(0)
	ok3, ok4 := h.Verify()
	if h.Version == 6 {
		flags2 |= rxIPv6
	} else if flags2 |= rxIPChecked; !ok3 {
		wrong |= rxIPWrong
	}
	if h.L4 != nil {
		if kind = typeTCP; h.Proto == ethernet.UDP {
			kind = typeUDP
		}
		if flags2 |= rxL4Checked; !ok4 {
			wrong |= rxL4Wrong
		}
	}
	le.PutUint32(e[:], kind)
	le.PutUint32(ext[8:], wrong)
	return flags2
}
