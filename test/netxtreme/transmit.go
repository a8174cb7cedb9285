// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"bytes"
	"slices"

	"purerdma/test/ethernet"
)

// txRing is a transmit ring.
type txRing struct {
	queue
	completions *completionRing
	statistics  *statistics // or nil
}

// Bits of the first word of a transmit descriptor, and of the first word of its extension.
const (
	txLong         = 0x10 // type
	txEnd          = 1 << 6
	txNoCompletion = 1 << 7

	txL4Checksum = 1 << 0
	txIPChecksum = 1 << 1
	txSegments   = 1 << 5
)

// maxFrame bounds the bytes of the descriptors of one request.
const maxFrame = 1 << 18

// ring executes the requests up to an index.
func (q *txRing) ring(index uint32) {
	if index >= q.depth {
		q.d.violation(q.name(), "a doorbell with index %#x of %#x descriptors", index, q.depth)
		return
	}
	q.pi = q.advanced(q.ci, index)
	for q.ci != q.pi {
		if !q.next() {
			q.ci = q.pi // the rest of the ring has no meaning
			return
		}
	}
}

// next executes one request. It returns false if the ring cannot continue.
func (q *txRing) next() bool {
	posted := q.pi - q.ci
	first, ext := q.entry(q.ci), q.entry(q.ci+1)
	if first == nil || ext == nil || posted < 2 {
		q.d.violation(q.name(), "descriptor %#x is not there", q.ci)
		return false
	}
	flags, opaque := le.Uint32(first), le.Uint32(first[4:])
	count := max(1, uint32(bits(uint64(flags), 12, 8)))
	if count == 1 && flags>>8&0x1f == 0 {
		count = 32
	}
	if flags&0x3f != txLong || count < 2 || count > posted {
		q.d.violation(q.name(), "descriptor %#x: flags %#x, with %d of %d descriptors", q.ci, flags, count, posted)
		return false
	}
	var frame []byte
	for i := range count {
		b := q.entry(q.ci + i)
		if i == 1 {
			continue
		}
		if b == nil {
			q.d.violation(q.name(), "descriptor %#x is not there", q.ci+i)
			return false
		}
		n, addr := int(le.Uint16(b[2:])), le.Uint64(b[8:])
		if last := count == 2 || i == count-1; last != (le.Uint32(b)&txEnd != 0) {
			q.d.violation(q.name(), "descriptor %#x: flags %#x, %d of %d", q.ci+i, le.Uint32(b), i, count)
			return false
		}
		data := q.d.mem.Bytes(addr, n)
		if data == nil || len(frame)+n > maxFrame {
			q.d.violation(q.name(), "descriptor %#x: %d bytes at %#x", q.ci+i, n, addr)
			return false
		}
		frame = append(frame, data...)
	}
	q.send(frame, bytes.Clone(ext))
	q.ci += count
	if flags&txNoCompletion == 0 {
		var e [entrySize]byte
		le.PutUint32(e[4:], opaque)
		q.completions.complete(e)
	}
	return true
}

// send sends the frames of a request.
func (q *txRing) send(frame, ext []byte) {
	flags := le.Uint32(ext)
	meta := le.Uint32(ext[12:])
	if meta>>28 == 1 && len(frame) >= 12 {
		frame = slices.Insert(frame, 12, 0x81, 0x00, byte(meta>>8), byte(meta))
	}
	frames := [][]byte{frame}
	if flags&txSegments != 0 {
		n := int(bits(uint64(flags), 23, 16)) * 2
		if meta>>28 == 1 {
			n += ethernet.VLANLen
		}
		if n > len(frame) {
			q.d.violation(q.name(), "request %#x: %d bytes of headers in %d bytes", q.ci, n, len(frame))
			return
		}
		if frames = ethernet.CutTCP(frame, n, int(le.Uint32(ext[4:])&0x7fff)); frames == nil {
			q.d.violation(q.name(), "request %#x: %d bytes of headers cannot be those of segments of %d bytes", q.ci, n, le.Uint32(ext[4:]))
			return
		}
		flags |= txL4Checksum | txIPChecksum
	}
	for _, f := range frames {
		h, ok := ethernet.Parse(f)
		if !ok {
			q.d.violation(q.name(), "request %#x: a frame of %d bytes", q.ci, len(f))
			return
		}
		h.Checksum(flags&txIPChecksum != 0, flags&txL4Checksum != 0)
		q.statistics.sent(f)
		q.d.sendFrame(f)
	}
}

// sendFrame sends a frame to all other ports.
func (d *Device) sendFrame(frame []byte) {
	if d.down {
		return
	}
	d.sent.add(frame)
	d.trace("frame of %d bytes: %x", len(frame), frame[:min(64, len(frame))])
	for _, o := range d.fabric.devices {
		if o != d {
			o.receiveFrame(frame)
		}
	}
}
