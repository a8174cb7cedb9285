// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// maxHops bounds the number of tables for a frame, which ends loops. A frame is lost earlier if
// these tables have more than maxSteps entries.
const maxHops = 256

// steer returns the TIRs of a received frame according to the flow tables.
func (d *Device) steer(h *ethernet.Headers) []*tir {
	m := match(h)
	d.steps = 0
	var tirs []*tir
	hops := 0
	var enter func(t *flowTable)
	enter = func(t *flowTable) {
		for ; t != nil && hops < maxHops; hops++ {
			if d.steps += len(t.flows); d.steps > maxSteps {
				return // lost as in a loop
			}
			f := t.find(&m)
			if f == nil {
				t, _ = d.missTable(t.context[:])
				continue
			}
			if f.action&prm.FlowDrop != 0 {
				return
			}
			for _, to := range f.to {
				if to.tir != nil {
					tirs = append(tirs, to.tir)
				} else {
					hops++
					enter(to.table)
				}
			}
			return
		}
	}
	enter(d.root)
	return tirs
}

// find returns the matching entry with the lowest index, or nil.
func (t *flowTable) find(m *[prm.MatchLen]byte) *flow {
	index := uint32(0)
	var best *flow
	for i, f := range t.flows {
		if (best == nil || i < index) && f.matches(m) {
			index, best = i, f
		}
	}
	return best
}

func (f *flow) matches(m *[prm.MatchLen]byte) bool {
	for i, mask := range f.group.mask {
		if (f.value[i]^m[i])&mask != 0 {
			return false
		}
	}
	return true
}

// queue returns the RQ of a TIR for a frame, and the hash that selected it. It returns nil if
// the RQ no longer exists.
func (t *tir) queue(d *Device, h *ethernet.Headers) (*rq, uint32) {
	if t.table == nil {
		return d.rqs.objects[uint32(prm.TIRC.InlineRQ.Get(t.context[:]))], 0
	}
	if len(t.table.rqs) == 0 {
		return nil, 0
	}
	hash := t.hash(h)
	return d.rqs.objects[t.table.rqs[hash&uint32(len(t.table.rqs)-1)]], hash
}

// hash returns the hash that distributes frames over a table of RQs. It covers the fields that
// the TIR selects and the frame has.
func (t *tir) hash(h *ethernet.Headers) uint32 {
	c := t.context[:]
	fields := prm.TIRC.HashFields.Get(c)
	if h.Version == 0 || (h.Version == 6) != prm.TIRC.HashL3IPv6.Is(c) {
		return 0
	}
	var b []byte
	src, dst := h.Addresses()
	if fields&prm.HashSrcIP != 0 {
		b = append(b, src...)
	}
	if fields&prm.HashDstIP != 0 {
		b = append(b, dst...)
	}
	if h.L4 != nil && (h.Proto == ethernet.UDP) == prm.TIRC.HashL4UDP.Is(c) {
		if fields&prm.HashL4Sport != 0 {
			b = append(b, h.L4[:2]...)
		}
		if fields&prm.HashL4Dport != 0 {
			b = append(b, h.L4[2:4]...)
		}
	}
	switch prm.TIRC.HashFunction.Get(c) {
	case prm.HashToeplitz:
		return ethernet.Toeplitz(prm.TIRC.ToeplitzKey.Of(c), b)
	case prm.HashXOR8:
		var x uint8
		for _, v := range b {
			x ^= v
		}
		return uint32(x)
	}
	return 0
}
