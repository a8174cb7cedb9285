// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// dct is a target of DC. Any initiator with its key can send to it.
type dct struct {
	d       *Device
	n       uint32
	context [64]byte
	pd      *pd
	cq      *cq
	srq     *srq
	state   uint64
}

var dctCommands = map[uint16]command{
	prm.OpCreateDCT: {"CREATE_DCT", 0x50, 16, createDCT},
	prm.OpDrainDCT: {"DRAIN_DCT", 16, 16, func(d *Device, in, _ []byte) error {
		t, err := d.findDCT(uint32(prm.ObjectIn.Number.Get(in)))
		if err != nil {
			return err
		}
		if t.state != prm.DCTActive {
			return refuse(prm.StatusBadResState, "DCT %#x is drained", t.n)
		}
		t.state = prm.DCTDrained
		d.event(prm.EventDCTDrained, 0, func(data []byte) { prm.EventQPN.Set(data, uint64(t.n)) })
		return nil
	}},
	prm.OpDestroyDCT: {"DESTROY_DCT", 16, 16, func(d *Device, in, _ []byte) error {
		t, err := d.findDCT(uint32(prm.ObjectIn.Number.Get(in)))
		if err != nil {
			return err
		}
		t.use(-1)
		delete(d.queues.objects, t.n)
		return nil
	}},
	prm.OpQueryDCT: {"QUERY_DCT", 16, 0x50, func(d *Device, in, out []byte) error {
		t, err := d.findDCT(uint32(prm.ObjectIn.Number.Get(in)))
		if err != nil {
			return err
		}
		c := prm.DCTIn.Context.Of(out)
		copy(c, t.context[:])
		prm.DCTC.State.Set(c, t.state)
		return nil
	}},
}

func createDCT(d *Device, in, out []byte) (err error) {
	c := prm.DCTIn.Context.Of(in)
	d.checkReserved("CREATE_DCT", &prm.DCTC, c)
	t := &dct{d: d, context: [64]byte(c)}
	if t.pd, err = d.pds.find(uint32(prm.DCTC.PD.Get(c))); err != nil {
		return err
	}
	if t.cq, err = d.cqs.find(uint32(prm.DCTC.CQN.Get(c))); err != nil {
		return err
	}
	if t.srq, err = d.findSRQ(uint32(prm.DCTC.SRQN.Get(c)), false); err != nil {
		return err
	}
	if t.n, err = d.queues.add(t); err != nil {
		return err
	}
	t.use(1)
	ece := uint64(agreeECE(uint32(prm.DCTC.ECE.Get(c))))
	prm.DCTC.ECE.Set(t.context[:], ece)
	prm.ObjectOut.Number.Set(out, uint64(t.n))
	prm.QPOut.ECE.Set(out, ece)
	return nil
}

func (t *dct) use(n users) {
	t.pd.users += n
	t.cq.users += n
	t.srq.users += n
}

func (d *Device) findDCT(n uint32) (*dct, error) {
	t, ok := d.queues.objects[n].(*dct)
	if !ok {
		return nil, refuse(prm.StatusBadResource, "there is no DCT %#x", n)
	}
	return t, nil
}

// respond handles a message of an initiator.
func (t *dct) respond(m *message) answer {
	c := t.context[:]
	if t.state != prm.DCTActive || m.service != prm.ServiceDCI {
		return answer{}
	}
	if prm.AV.DCKey.Get(m.av) != prm.DCTC.AccessKey.Get(c) {
		prm.DCTC.Violations.Set(c, prm.DCTC.Violations.Get(c)+1)
		t.d.note(t, "a message of DCI %#x is dropped: it has another key", m.from.n)
		return answer{}
	}
	to := &t.d.target
	*to = target{
		d: t.d, n: t.n, pd: t.pd.n, queue: &t.srq.receiveQueue, srq: t.srq, cq: t.cq,
		read: prm.DCTC.RemoteRead.Is(c), write: prm.DCTC.RemoteWrite.Is(c), atomic: prm.DCTC.RemoteAtomic.Is(c),
		index: uint32(prm.DCTC.UserIndex.Get(c)), scatter: prm.DCTC.ScatterResp.Get(c), rnr: prm.DCTC.MinRNRNAK.Get(c),
		owner: t,
	}
	return to.execute(m)
}

// fault does nothing, because the target is shared with other initiators.
func (t *dct) fault(prm.EventType) {}

// doorbell does nothing, because a target does not send.
func (t *dct) doorbell(d *Device, _ *uar, _ []byte) {
	d.violation(t.name(), "a doorbell, but a target of DC sends nothing")
}

// stop does nothing, because a target has no activity of its own.
func (t *dct) stop() {}

func (t *dct) name() string { return fmt.Sprintf("DCT %#x", t.n) }
