// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// maskFields lists the fields of a key that a UMR can change, by bit of its mask.
var maskFields = []struct {
	bit    uint64
	fields []prm.Field
}{
	{prm.MaskLength, []prm.Field{prm.MKC.Length, prm.MKC.Length64}},
	{prm.MaskPageSize, []prm.Field{prm.MKC.LogPageSize}},
	{prm.MaskStartAddr, []prm.Field{prm.MKC.StartAddr}},
	{prm.MaskPD, []prm.Field{prm.MKC.PD}},
	{prm.MaskRemoteInv, []prm.Field{prm.MKC.RemoteInvalidate}},
	{prm.MaskKey, []prm.Field{prm.MKC.Key}},
	{prm.MaskQPN, []prm.Field{prm.MKC.QPN}},
	{prm.MaskLocalRead, []prm.Field{prm.MKC.LocalRead}},
	{prm.MaskLocalWrite, []prm.Field{prm.MKC.LocalWrite}},
	{prm.MaskRemoteRead, []prm.Field{prm.MKC.RemoteRead}},
	{prm.MaskRemoteWrite, []prm.Field{prm.MKC.RemoteWrite}},
	{prm.MaskAtomic, []prm.Field{prm.MKC.Atomic}},
	{prm.MaskSmallFence, []prm.Field{prm.MKC.SmallFence}},
	{prm.MaskRelaxedWrite, []prm.Field{prm.MKC.RelaxedWrite}},
	{prm.MaskRelaxedRead, []prm.Field{prm.MKC.RelaxedRead}},
	{prm.MaskFree, []prm.Field{prm.MKC.Free}},
}

// maskKnown contains the bits with a meaning. Page sizes above 2^31 are in a separate field.
// The length of a translation is fixed when the key is created.
var maskKnown = func() (m uint64) {
	for _, f := range maskFields {
		m |= f.bit
	}
	return m | prm.MaskPageSize5 | prm.MaskOctowords | prm.MaskSigErr | prm.MaskBSF
}()

// umr changes a key according to a request. It registers memory, binds a window, or reverts
// either.
func (d *Device) umr(q *qp, r *request) prm.Syndrome {
	s, err := d.changeKey(q, r)
	if err != nil {
		d.note(q, "UMR of key %#x: %v", r.imm, err)
	}
	return s
}

func (d *Device) changeKey(q *qp, r *request) (prm.Syndrome, error) {
	if len(r.segments) < prm.UMRCtrlLen {
		return prm.SyndromeLocalQPOp, fmt.Errorf("a request of %d bytes", len(r.segments))
	}
	ctrl, rest := r.segments[:prm.UMRCtrlLen], r.segments[prm.UMRCtrlLen:]
	mask := prm.UMRCtrl.Mask.Get(ctrl)
	var c [prm.MkeyLen]byte
	if n := copy(c[:], rest); n < prm.MkeyLen && mask != 0 {
		return prm.SyndromeLocalQPOp, fmt.Errorf("a mask of %#x, but %d bytes of a context", mask, n)
	}
	d.checkReserved(q.name(), &prm.UMRCtrl, ctrl)
	if bad := mask &^ maskKnown; bad != 0 {
		d.violation(q.name(), "a UMR changes %#x, which no key has", bad)
	}
	m := d.mkeys.objects[r.imm>>8]
	if m == nil {
		return prm.SyndromeMWBind, fmt.Errorf("there is no key")
	}
	privileged := q.service == prm.ServiceRegU
	if mask&prm.MaskPD != 0 {
		if !privileged {
			return prm.SyndromeMWBind, fmt.Errorf("only the kernel changes PDs")
		}
		if _, err := d.pds.find(uint32(prm.MKC.PD.Get(c[:]))); err != nil {
			return prm.SyndromeMWBind, err
		}
	}
	check := prm.UMRCtrl.CheckFree.Get(ctrl)
	switch {
	// A free key has no variant. libmlx5's invalidation sets the variant to 0, and the next
	// bind contains the last variant.
	case !privileged && !m.free() && m.key() != r.imm:
		return prm.SyndromeMWBind, fmt.Errorf("it is %#x now", m.key())
	case !privileged && m.pd() != q.pd.n:
		return prm.SyndromeMWBind, fmt.Errorf("it is of PD %#x, not %#x", m.pd(), q.pd.n)
	case !prm.MKC.UMREnabled.Is(m.context[:]):
		return prm.SyndromeMWBind, fmt.Errorf("it is not for UMR")
	case check == prm.UMRCheckFree && !m.free():
		return prm.SyndromeMWBind, fmt.Errorf("it is not free")
	case check == prm.UMRCheckNotFree && m.free():
		return prm.SyndromeMWBind, fmt.Errorf("it is free")
	case prm.UMRCtrl.CheckQPN.Is(ctrl) && uint32(prm.MKC.QPN.Get(m.context[:])) != q.n:
		return prm.SyndromeMWBind, fmt.Errorf("it is bound to QP %#x", prm.MKC.QPN.Get(m.context[:]))
	}
	list, s, err := d.translation(q, ctrl, rest[min(len(rest), prm.MkeyLen):])
	if err != nil {
		return s, err
	}
	at := uint64(0)
	if prm.UMRCtrl.OffsetEnabled.Is(ctrl) {
		at = prm.UMRCtrl.OffsetHigh.Get(ctrl)<<16 | prm.UMRCtrl.Offset.Get(ctrl)
	}
	d.usePD(m, -1)
	for _, f := range maskFields {
		if mask&f.bit != 0 {
			for _, field := range f.fields {
				field.Set(m.context[:], field.Get(c[:]))
			}
		}
	}
	d.usePD(m, 1)
	if !m.translate(d, at, list) {
		return prm.SyndromeMWBind, fmt.Errorf("a translation of %d octowords from %d on", len(list)/prm.Octoword, at)
	}
	return prm.SyndromeNone, nil
}

// translation returns the entries of a UMR, from the request or from memory.
func (d *Device) translation(q *qp, ctrl, rest []byte) ([]byte, prm.Syndrome, error) {
	n := prm.UMRCtrl.Octowords.Get(ctrl) * prm.Octoword
	if n == 0 || len(rest) == 0 {
		return nil, prm.SyndromeNone, nil
	}
	if prm.UMRCtrl.Inline.Is(ctrl) {
		if uint64(len(rest)) < n {
			return nil, prm.SyndromeLocalQPOp, fmt.Errorf("%d bytes of translation in %d", n, len(rest))
		}
		return rest[:n], prm.SyndromeNone, nil
	}
	pieces, err := d.memory(d.remote[:0], access{q.pd.n, q.n, localRead}, uint32(prm.DataSeg.LKey.Get(rest)), prm.DataSeg.Address.Get(rest), n)
	if err != nil {
		return nil, prm.SyndromeLocalProt, err
	}
	d.remote = pieces
	list := make([]byte, 0, n)
	for _, p := range pieces {
		list = append(list, p...)
	}
	return list, prm.SyndromeNone, nil
}

// invalidate invalidates a key that a peer has sent.
func (d *Device) invalidate(t *target, key uint32) error {
	m := d.mkeys.objects[key>>8]
	if m == nil || m.key() != key {
		return fmt.Errorf("there is no key %#x to invalidate", key)
	}
	c := m.context[:]
	switch qpn := uint32(prm.MKC.QPN.Get(c)); {
	case m.free():
		return fmt.Errorf("key %#x is free", key)
	case !prm.MKC.RemoteInvalidate.Is(c):
		return fmt.Errorf("key %#x is not for peers to invalidate", key)
	case m.pd() != t.pd:
		return fmt.Errorf("key %#x is of PD %#x, not %#x", key, m.pd(), t.pd)
	case qpn != prm.AnyQP && qpn != t.n:
		return fmt.Errorf("key %#x is bound to QP %#x, not %#x", key, qpn, t.n)
	}
	prm.MKC.Free.Set(c, 1)
	return nil
}
