// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// domain is a transport domain, which groups the interfaces of one driver.
type domain struct {
	n uint32
	users
}

// tis is a transport interface for sending, used by queues of Ethernet.
type tis struct {
	n       uint32
	context [prm.TISSize]byte
	domain  *domain
	users
}

// tir is a transport interface for receiving, the target of flow tables.
type tir struct {
	n       uint32
	context [prm.TIRSize]byte
	domain  *domain
	table   *rqt // table of RQs selected by a hash, or nil
	users
}

// rqt is a table of RQs. It may contain numbers of destroyed RQs.
type rqt struct {
	n       uint32
	context [prm.TIRSize]byte
	rqs     []uint32
	users
}

// logMaxRQTSize is the log2 of the maximum size of a table of RQs.
const logMaxRQTSize = 11

var interfaceCommands = map[uint16]command{
	prm.OpAllocTransportDomain: {"ALLOC_TRANSPORT_DOMAIN", 16, 16, func(d *Device, _, out []byte) (err error) {
		o := new(domain)
		if o.n, err = d.domains.add(o); err == nil {
			prm.ObjectOut.Number.Set(out, uint64(o.n))
		}
		return err
	}},
	prm.OpDeallocTransportDomain: {"DEALLOC_TRANSPORT_DOMAIN", 16, 16, func(d *Device, in, _ []byte) error {
		_, err := d.domains.remove(uint32(prm.ObjectIn.Number.Get(in)))
		return err
	}},
	prm.OpCreateTIS:  {"CREATE_TIS", 0x20 + prm.TISSize, 16, createTIS},
	prm.OpModifyTIS:  {"MODIFY_TIS", 0x20 + prm.TISSize, 16, modifyTIS},
	prm.OpDestroyTIS: {"DESTROY_TIS", 16, 16, destroyTIS},
	prm.OpCreateTIR:  {"CREATE_TIR", 0x20 + prm.TIRSize, 16, createTIR},
	prm.OpModifyTIR:  {"MODIFY_TIR", 0x20 + prm.TIRSize, 16, modifyTIR},
	prm.OpDestroyTIR: {"DESTROY_TIR", 16, 16, destroyTIR},
	prm.OpCreateRQT:  {"CREATE_RQT", 0x20 + prm.TIRSize, 16, createRQT},
	prm.OpModifyRQT:  {"MODIFY_RQT", 0x20 + prm.TIRSize, 16, modifyRQT},
	prm.OpDestroyRQT: {"DESTROY_RQT", 16, 16, destroyRQT},
}

func createTIS(d *Device, in, out []byte) (err error) {
	c := prm.CreateContextIn.Context.Of(in)
	t := &tis{context: [prm.TISSize]byte(c)}
	d.checkReserved("CREATE_TIS", &prm.TISC, t.context[:])
	if t.domain, err = d.domains.find(uint32(prm.TISC.TransportDomain.Get(c))); err != nil {
		return err
	}
	if t.n, err = d.tiss.add(t); err != nil {
		return err
	}
	t.domain.users++
	prm.ObjectOut.Number.Set(out, uint64(t.n))
	return nil
}

// modifyTIS changes the priority. Other fields cannot be changed.
func modifyTIS(d *Device, in, _ []byte) error {
	t, err := d.tiss.find(uint32(prm.ModifyContextIn.Number.Get(in)))
	if err != nil {
		return err
	}
	prm.TISC.Prio.Set(t.context[:], prm.TISC.Prio.Get(prm.ModifyContextIn.Context.Of(in)))
	return nil
}

func destroyTIS(d *Device, in, _ []byte) error {
	t, err := d.tiss.remove(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	t.domain.users--
	return nil
}

// check resolves the references in a TIR's context.
func (t *tir) check(d *Device) (err error) {
	c := t.context[:]
	d.checkReserved("TIR", &prm.TIRC, c)
	if t.domain, err = d.domains.find(uint32(prm.TIRC.TransportDomain.Get(c))); err != nil {
		return err
	}
	t.table = nil
	switch kind := prm.TIRC.DispatchType.Get(c); kind {
	case prm.TIRDirect:
		_, err = d.rqs.find(uint32(prm.TIRC.InlineRQ.Get(c)))
		return err
	case prm.TIRIndirect:
		if f := prm.TIRC.HashFunction.Get(c); f > prm.HashToeplitz {
			return refuse(prm.StatusBadParam, "TIR: there is no hash function %d", f)
		}
		t.table, err = d.rqts.find(uint32(prm.TIRC.Table.Get(c)))
		return err
	default:
		return refuse(prm.StatusBadParam, "TIR: there is no dispatching of type %d", kind)
	}
}

func (t *tir) hold(by users) {
	t.domain.users += by
	if t.table != nil {
		t.table.users += by
	}
}

func createTIR(d *Device, in, out []byte) (err error) {
	t := &tir{context: [prm.TIRSize]byte(prm.CreateContextIn.Context.Of(in))}
	if err := t.check(d); err != nil {
		return err
	}
	if t.n, err = d.tirs.add(t); err != nil {
		return err
	}
	t.hold(1)
	prm.ObjectOut.Number.Set(out, uint64(t.n))
	return nil
}

// Bits of MODIFY_TIR's mask.
const (
	modifyTIRHash   = 1 << 2
	modifyTIRSelfLB = 1 << 4
)

func modifyTIR(d *Device, in, _ []byte) error {
	t, err := d.tirs.find(uint32(prm.ModifyContextIn.Number.Get(in)))
	if err != nil {
		return err
	}
	c, mask := prm.ModifyContextIn.Context.Of(in), prm.ModifyContextIn.Bitmask.Get(in)
	n := tir{context: t.context}
	if mask&modifyTIRSelfLB != 0 {
		prm.TIRC.SelfLBBlock.Set(n.context[:], prm.TIRC.SelfLBBlock.Get(c))
	}
	if bad := mask &^ (modifyTIRHash | modifyTIRSelfLB); bad != 0 {
		return refuse(prm.StatusBadParam, "MODIFY_TIR: cannot change %#x", bad)
	}
	if mask&modifyTIRHash != 0 {
		for _, f := range []prm.Field{prm.TIRC.Symmetric, prm.TIRC.HashFunction, prm.TIRC.HashL3IPv6, prm.TIRC.HashL4UDP, prm.TIRC.HashFields} {
			f.Set(n.context[:], f.Get(c))
		}
		copy(prm.TIRC.ToeplitzKey.Of(n.context[:]), prm.TIRC.ToeplitzKey.Of(c))
	}
	if err := n.check(d); err != nil {
		return err
	}
	t.hold(-1)
	t.context, t.table, t.domain = n.context, n.table, n.domain
	t.hold(1)
	return nil
}

func destroyTIR(d *Device, in, _ []byte) error {
	t, err := d.tirs.remove(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	t.hold(-1)
	return nil
}

// readRQT reads the list of RQs from a command.
func (d *Device) readRQT(in []byte) (rqs []uint32, err error) {
	c := prm.CreateContextIn.Context.Of(in)
	n, list := int(prm.RQTC.ActualSize.Get(c)), prm.RQTC.RQs.Of(c)
	if n > 1<<logMaxRQTSize || n&(n-1) != 0 {
		return nil, refuse(prm.StatusBadParam, "a table of %d RQs: no power of two up to %d", n, 1<<logMaxRQTSize)
	}
	if len(list) < 4*n {
		return nil, refuse(prm.StatusBadInputLength, "a table of %d RQs in %d bytes", n, len(list))
	}
	for i := range n {
		rqn := binary.BigEndian.Uint32(list[4*i:]) & 0xffffff
		if _, err := d.rqs.find(rqn); err != nil {
			return nil, err
		}
		rqs = append(rqs, rqn)
	}
	return rqs, nil
}

func createRQT(d *Device, in, out []byte) (err error) {
	t := &rqt{context: [prm.TIRSize]byte(prm.CreateContextIn.Context.Of(in))}
	if t.rqs, err = d.readRQT(in); err != nil {
		return err
	}
	if limit := int(prm.RQTC.MaxSize.Get(t.context[:])); len(t.rqs) > limit {
		return refuse(prm.StatusBadParam, "a table of %d RQs, of at most %d", len(t.rqs), limit)
	}
	if t.n, err = d.rqts.add(t); err != nil {
		return err
	}
	prm.ObjectOut.Number.Set(out, uint64(t.n))
	return nil
}

func modifyRQT(d *Device, in, _ []byte) error {
	t, err := d.rqts.find(uint32(prm.ModifyContextIn.Number.Get(in)))
	if err != nil {
		return err
	}
	rqs, err := d.readRQT(in)
	if err != nil {
		return err
	}
	if limit := int(prm.RQTC.MaxSize.Get(t.context[:])); len(rqs) > limit {
		return refuse(prm.StatusBadParam, "a table of %d RQs, of at most %d", len(rqs), limit)
	}
	t.rqs = rqs
	return nil
}

func destroyRQT(d *Device, in, _ []byte) error {
	_, err := d.rqts.remove(uint32(prm.ObjectIn.Number.Get(in)))
	return err
}
