// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
)

// Parts of a UMR request: control segment, mkey context, translation.
const (
	umrContext     = 48
	umrTranslation = umrContext + 64
	umrFlagFree    = 1 << 6 // of the context: the key is to name nothing
	umrCheckQPN    = 1 << 3 // of the control segment: only a key of this QP
	umrCheckFree   = 1 << 5 // only a key that names nothing
)

// Rights in an mkey context.
var umrAccess = map[byte]uint32{
	1 << 3: abi.IB_UVERBS_ACCESS_LOCAL_WRITE,
	1 << 4: abi.IB_UVERBS_ACCESS_REMOTE_READ,
	1 << 5: abi.IB_UVERBS_ACCESS_REMOTE_WRITE,
	1 << 6: abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC,
}

// bind binds a memory window, or unbinds it.
func (q *QP) bind(r *request) uint8 {
	be := binary.BigEndian
	if len(r.rest) < umrTranslation {
		return SyndromeLocalQPOp
	}
	flags, ctx := r.rest[0], r.rest[umrContext:]
	w := q.c.window(q.pd, r.imm)
	key := be.Uint32(ctx[4:])
	switch {
	case w == nil, flags&umrCheckFree != 0 && w.MR != nil, flags&umrCheckQPN != 0 && (w.MR == nil || w.QPN != q.Num):
		return SyndromeMWBind
	case ctx[0]&umrFlagFree != 0:
		w.MR = nil
		return 0
	case len(r.rest) < umrTranslation+16:
		return SyndromeLocalQPOp
	}
	klm := r.rest[umrTranslation:]
	m := q.c.region(q.pd, be.Uint32(klm[4:]))
	addr, length := be.Uint64(klm[8:]), be.Uint64(ctx[24:])
	if m == nil || m.Access&abi.IB_UVERBS_ACCESS_MW_BIND == 0 || uint64(be.Uint32(klm)) != length || !m.Has(addr, length) {
		return SyndromeMWBind
	}
	var access uint32
	for bit, right := range umrAccess {
		if ctx[2]&bit != 0 {
			access |= right
		}
	}
	const changes = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	if access&changes != 0 && m.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0 {
		return SyndromeMWBind
	}
	w.MR, w.Addr, w.Base, w.Length, w.Access, w.QPN = m, be.Uint64(ctx[16:]), addr, length, access, key>>8
	w.RKey = w.RKey&^0xff | key&0xff
	return 0
}

// window returns the window of a key, nil if there is none.
func (c *context) window(pd *fakeuverbs.PD, key uint32) *fakeuverbs.MW {
	for _, w := range c.MWs {
		if w.RKey == key && w.PD == pd {
			return w
		}
	}
	return nil
}

func (c *context) region(pd *fakeuverbs.PD, key uint32) *fakeuverbs.MR {
	for _, m := range c.MRs {
		if m.LKey == key && m.PD == pd {
			return m
		}
	}
	return nil
}

// invalidate unbinds the window of type 2 whose key a peer has sent.
func (p *QP) invalidate(key uint32) bool {
	w := p.c.window(p.pd, key)
	if w == nil || w.Type != 2 || w.MR == nil || w.QPN != p.Num {
		return false
	}
	w.MR = nil
	return true
}
