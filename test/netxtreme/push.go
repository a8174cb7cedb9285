// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "bytes"

// A program can push a request. It writes a copy to a buffer in a page of the card, between two doorbells. The card
// then need not read the send queue. The pages of doorbells and buffers have the same layout. Buffer 0 is not used,
// because the doorbells are in its place. The model compares the copy with the send queue.

const (
	pushBuffers = 16
	pushSize    = 256 // bytes of a buffer
)

// pushKey is the page and the number of a buffer.
type pushKey struct{ page, buffer uint32 }

// push is a buffer between its two doorbells.
type push struct {
	qp      uint32
	index   uint32 // of the request in the send queue
	data    [pushSize]byte
	written [pushSize]bool
}

// ringPush handles a doorbell of a buffer, at an offset in the page of a DPI. The doorbell contains the page of the
// buffer.
func (d *Device) ringPush(name string, dpi, off uint32, v uint64) {
	n, index := uint32(bits(v, 51, 32)), uint32(bits(v, 23, 0))
	key := pushKey{uint32(bits(v, 55, 52)<<8 | bits(v, 31, 24)), off/8 - 1}
	q := d.qps[n]
	switch {
	case q == nil || q.dpi != dpi:
		d.stale(name, "QP %#x does not exist or has another page", n)
		return
	case off < 16 || off > pushBuffers*8 || key.page < firstDPI || key.page >= maxDPI:
		d.violation(name, "there is no buffer %d in page %d", int32(key.buffer), key.page)
		return
	case bits(v, 63, 60) == doorbellPushStart:
		d.pushes[key] = &push{qp: n, index: index}
		return
	}
	p := d.pushes[key]
	delete(d.pushes, key)
	if p == nil || p.qp != n {
		d.stale(name, "the end of a push of QP %#x, which did not start", n)
		return
	}
	if reason := q.checkPush(p); reason != "" {
		d.violation(q.name(), "pushed request %d: %s", p.index, reason)
	}
	q.ringSend(index)
}

// writePush stores bytes to a buffer.
func (d *Device) writePush(name string, off uint32, b []byte) {
	p := d.pushes[pushKey{off/pageSize - doorbellStart/pageSize, off % pageSize / pushSize}]
	at := off % pushSize
	if p == nil || int(at)+len(b) > pushSize {
		d.stale(name, "a store of %d bytes outside of a push", len(b))
		return
	}
	copy(p.data[at:], b)
	for i := range b {
		p.written[int(at)+i] = true
	}
}

// checkPush returns how a pushed request differs from the send queue, or "".
func (q *qp) checkPush(p *push) string {
	n := int(p.data[2]) * slotSize
	if n == 0 || n > pushSize || p.index >= q.send.depth {
		return "its header or its index is wrong"
	}
	for _, written := range p.written[:n] {
		if !written {
			return "parts of it were not written"
		}
	}
	var want []byte
	for i := uint64(0); len(want) < n; i++ {
		entry := make([]byte, q.send.size)
		if !q.send.read(q.d.mem, uint64(p.index)+i, entry) {
			return "the host has removed the memory of the send queue"
		}
		want = append(want, entry...)
	}
	if !bytes.Equal(p.data[:n], want[:n]) {
		return "it differs from the send queue"
	}
	return ""
}
