// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"purerdma/test/connectx/prm"
)

// receiveQueue holds receives: those of a QP one after another, those of a shared
// receive queue as a list, each of which names the next.
type receiveQueue struct {
	buffer  buffer
	logSize uint
	stride  uint64 // bytes of a receive
	record  uint64 // doorbell record: how many have been posted
	linked  bool
	head    uint16 // which is the next
	taken   uint16 // how many have been
}

// posted returns how many receives there are to take.
func (r *receiveQueue) posted(d *Device) uint16 {
	b := d.mem.Bytes(r.record, 4)
	if b == nil || !aligned(b) {
		return 0
	}
	return uint16(loadWord(b)) - r.taken
}

// receive is one receive: how completions name it, and where its elements are.
type receive struct {
	index    uint16
	elements []byte
	next     uint16
}

// peek returns the next receive. It is not ok if there is none.
func (r *receiveQueue) peek(d *Device, owner named) (w receive, ok bool) {
	n := r.posted(d)
	if n == 0 {
		return w, false
	}
	if int(n) > 1<<r.logSize {
		d.violation(owner.name(), "%d receives are posted, but it has %d", n, 1<<r.logSize)
		return w, false
	}
	b := r.buffer.at(d.mem, uint64(r.head)&(1<<r.logSize-1)*r.stride, int(r.stride))
	if b == nil {
		d.violation(owner.name(), "the memory of its receives is not there")
		return w, false
	}
	w = receive{index: r.head, elements: b, next: r.head + 1}
	if r.linked {
		w.next, w.elements = uint16(prm.NextSeg.NextIndex.Get(b)), b[prm.Octoword:]
		if int(w.next) >= 1<<r.logSize {
			d.violation(owner.name(), "receive %d is followed by %d, but there are %d", r.head, w.next, 1<<r.logSize)
			w.next &= 1<<r.logSize - 1
		}
	}
	return w, true
}

// take goes on behind a receive.
func (r *receiveQueue) take(w receive) {
	r.head = w.next
	r.taken++
}

// scatterList appends the memory that a receive names, as much as n bytes need. It
// returns why it cannot.
func (d *Device) scatterList(dst [][]byte, a access, elements []byte, n int) ([][]byte, prm.Syndrome, error) {
	room := uint64(0)
	for ; len(elements) >= prm.Octoword && room < uint64(n); elements = elements[prm.Octoword:] {
		count, key := prm.DataSeg.ByteCount.Get(elements), uint32(prm.DataSeg.LKey.Get(elements))
		if key == prm.ReservedLKey {
			break
		}
		if count == 0 {
			continue
		}
		var err error
		if dst, err = d.memory(dst, a, key, prm.DataSeg.Address.Get(elements), count); err != nil {
			return dst, prm.SyndromeLocalProt, err
		}
		room += count
	}
	if room < uint64(n) {
		return dst, prm.SyndromeLocalLength, nil
	}
	return dst, prm.SyndromeNone, nil
}
