// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"bytes"
	"fmt"
	"unsafe"

	"purerdma/provider"
)

// recordedSRQ describes an SRQ whose receives are recorded. It does not change.
type recordedSRQ struct {
	recorder *Recorder
	seq      int
	num      uint32
	attr     provider.SRQAttr
	xrc      bool
	cq       *recordedCQ // of an XRC SRQ
}

// record starts recording of a new SRQ if the Context has a Recorder.
func (s *SRQ) record() {
	r := s.ctx.recorder.Load()
	if r == nil {
		return
	}
	s.recorded = &recordedSRQ{recorder: r, seq: r.queue(), num: s.num, attr: s.attr, xrc: s.cq != nil}
	if s.cq != nil {
		s.recorded.cq = s.cq.recorded
	}
}

// receives records the last n receives, of which the first is in a slot, before the doorbell. The caller holds the lock of the queue.
func (d *recordedSRQ) receives(s *SRQ, slot uint16, n int, kind recordedKind) {
	r := d.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		o := r.add(kind)
		o.srq, o.at, o.id, o.record = d, uint32(slot), s.ids[slot], (s.posted+uint32(n))&0xffff
		o.first, o.last = i == 0, i == n-1
		p := unsafe.Add(s.slot(slot), srqSegment)
		used := uintptr(0)
		for used < min(uintptr(s.maxSGE), maxSegments) {
			at := used * segment
			used++
			if load32(p, at) == 0 && load32(p, at+4) == invalidLKey {
				break // the element that ends the list
			}
		}
		o.size = uint16(copy(o.data[:], unsafe.Slice((*byte)(p), used*segment)))
		slot = s.list.next[slot]
	}
}

// name returns the name of a queue that may be nil.
func (d *recordedSRQ) name() string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("srq%d", d.seq)
}

func (t *recording) srq(d *recordedSRQ) {
	if d == nil || t.seen[d.seq] {
		return
	}
	t.seen[d.seq] = true
	t.cq(d.cq)
	xrc := ""
	if d.xrc {
		xrc = fmt.Sprintf(`,"xrcd":"xrcd","cq":%q`, d.cq.name())
	}
	t.line(`{"t":"srq","id":%q,"got_wr":%d,"got_sge":%d,"srqn":%d%s}`, d.name(), d.attr.MaxWR, d.attr.MaxSGE, d.num, xrc)
}

// srqReceives writes a list of receives, or a receive that the provider has posted again.
func (t *recording) srqReceives(ops []recorded, last *recorded) {
	var list [][]byte
	for i := range ops {
		o := &ops[i]
		list = append(list, fmt.Appendf(nil, `{"slot":%d,"bytes":"%x"}`, o.at, o.data[:o.size]))
	}
	posted := fmt.Sprintf(`"t":"recv","on":%q,"wrs":[%s],"bad":-1`, last.srq.name(), requestIDs(ops))
	if last.kind == recordedRepost {
		posted = fmt.Sprintf(`"t":"reposted","on":%q`, last.srq.name())
	}
	t.line(`{%s,"list":[%s],"db":%d}`, posted, bytes.Join(list, []byte{','}), last.record)
}
