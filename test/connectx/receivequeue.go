// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// receiveQueue is a queue of receives. A QP's receives are consecutive. Receives of a shared
// receive queue form a linked list.
type receiveQueue struct {
	buffer  buffer
	logSize uint
	stride  uint64 // size of a receive in bytes
	record  uint64 // doorbell record with the number of posted receives
	linked  bool
	head    uint16 // index of the next receive
	taken   uint16 // number of executed receives
	before  uint16 // number of receives before the last reset
}

// posted returns the number of available receives.
func (r *receiveQueue) posted(d *Device) uint16 {
	b := d.mem.Bytes(r.record, 4)
	if b == nil || !pci.Aligned(b) {
		return 0
	}
	return uint16(pci.LoadWord(b)) - r.taken
}

// receive is one receive with its index and its elements.
type receive struct {
	index    uint16
	elements []byte
	next     uint16
}

// peek returns the next receive. ok is false if there is none.
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

// take advances past a receive.
func (r *receiveQueue) take(w receive) {
	r.head = w.next
	r.taken++
}

// scatterList appends the memory of a receive for n bytes. Its error is the reason of a
// failure.
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
