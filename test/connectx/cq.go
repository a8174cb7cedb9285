// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// cq is a completion queue.
type cq struct {
	n       uint32
	context [64]byte // as set by the driver
	eq      *eq
	uar     *uar
	logSize uint
	size    int // size of an entry in bytes
	buffer  buffer
	record  uint64 // doorbell record: consumer index, arm word
	pi      uint32
	// solicited is the producer index after the last solicited completion.
	solicited uint32
	state     uint64 // prm.CQStateArmed and its siblings
	status    uint64
	held      []completion // unwritten completions that may share a title
	late      late
	users
}

// maxLogCQ is the log2 of the maximum number of entries.
const maxLogCQ = 22

var cqCommands = map[uint16]command{
	prm.OpCreateCQ:  {"CREATE_CQ", 0x110, 16, createCQ},
	prm.OpDestroyCQ: {"DESTROY_CQ", 16, 16, destroyCQ},
	prm.OpQueryCQ:   {"QUERY_CQ", 16, 0x110, queryCQ},
	prm.OpModifyCQ:  {"MODIFY_CQ", 0x110, 16, modifyCQ},
}

func createCQ(d *Device, in, out []byte) (err error) {
	c := prm.CQIn.Context.Of(in)
	d.checkReserved("CREATE_CQ", &prm.CQC, c)
	q := &cq{context: [64]byte(c), record: prm.CQC.DBRAddr.Get(c), state: prm.CQStateFired}
	if q.eq, err = d.eqs.find(uint32(prm.CQC.EQN.Get(c))); err != nil {
		return err
	}
	if q.uar, err = d.uars.find(uint32(prm.CQC.UARPage.Get(c))); err != nil {
		return err
	}
	if err := checkCompression(c); err != nil {
		return err
	}
	if err := checkRecord(q.record); err != nil {
		return err
	}
	if err := q.resize(d, in); err != nil {
		return err
	}
	if q.n, err = d.cqs.add(q); err != nil {
		return err
	}
	q.eq.users++
	q.buffer.hold(d, 1)
	q.uar.cqs = append(q.uar.cqs, q)
	if q.uar.mem != nil {
		if r := d.mem.Bytes(q.record, 8); r != nil && pci.Aligned(r) {
			pci.SwapWord(r[4:], notArmed)
		}
	}
	prm.ObjectOut.Number.Set(out, uint64(q.n))
	return nil
}

// checkRecord rejects an invalid address of a doorbell record.
func checkRecord(addr uint64) error {
	if addr%4 != 0 {
		return refuse(prm.StatusBadParam, "a doorbell record at %#x", addr)
	}
	return nil
}

// resize takes size and memory from the input of CREATE_CQ or MODIFY_CQ.
func (q *cq) resize(d *Device, in []byte) error {
	c := prm.CQIn.Context.Of(in)
	size, log := 64, prm.CQC.LogCQSize.Get(c)
	switch prm.CQC.CQESize.Get(c) {
	case prm.CQESize64:
	case prm.CQESize128, prm.CQESize128Pad:
		size = 128
	default:
		return refuse(prm.StatusBadParam, "there is no size %d of a completion", prm.CQC.CQESize.Get(c))
	}
	if log > maxLogCQ {
		return refuse(prm.StatusBadParam, "a completion queue has at most 2^%d entries, not 2^%d", maxLogCQ, log)
	}
	b, err := d.newBuffer(prm.CQIn.PAS.Of(in), prm.CQC.LogPageSize.Get(c), prm.CQC.PageOffset.Get(c), uint64(size)<<log)
	if err != nil {
		return err
	}
	q.buffer, q.size, q.logSize = b, size, uint(log)
	return nil
}

func destroyCQ(d *Device, in, _ []byte) error {
	q, err := d.cqs.remove(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	q.eq.users--
	q.late.timer.Stop()
	q.buffer.hold(d, -1)
	q.uar.cqs = without(q.uar.cqs, q)
	return nil
}

func queryCQ(d *Device, in, out []byte) error {
	q, err := d.cqs.find(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	c := prm.CQIn.Context.Of(out)
	copy(c, q.context[:])
	prm.CQC.Status.Set(c, q.status)
	prm.CQC.State.Set(c, q.state)
	prm.CQC.LogCQSize.Set(c, uint64(q.logSize))
	prm.CQC.ProducerCounter.Set(c, uint64(q.pi))
	prm.CQC.LastSolicited.Set(c, uint64(q.solicited))
	if ci, ok := q.consumer(d); ok {
		prm.CQC.ConsumerCounter.Set(c, uint64(ci))
	}
	q.buffer.put(prm.CQIn.PAS.Of(out))
	return nil
}

// modifyCQ moves the queue to other memory, or changes the moderation of events, which the
// device ignores.
func modifyCQ(d *Device, in, _ []byte) error {
	q, err := d.cqs.find(uint32(prm.CQIn.CQN.Get(in)))
	if err != nil {
		return err
	}
	c, selected := prm.CQIn.Context.Of(in), prm.CQIn.Select.Get(in)
	if prm.HeaderIn.OpMod.Get(in) != prm.OpModResizeCQ {
		if selected&^(prm.ModifyCQPeriod|prm.ModifyCQMaxCount|prm.ModifyCQOverrun) != 0 {
			return refuse(prm.StatusBadParam, "MODIFY_CQ cannot change %#x", selected)
		}
		if selected&prm.ModifyCQPeriod != 0 {
			prm.CQC.Period.Set(q.context[:], prm.CQC.Period.Get(c))
		}
		if selected&prm.ModifyCQMaxCount != 0 {
			prm.CQC.MaxCount.Set(q.context[:], prm.CQC.MaxCount.Get(c))
		}
		if selected&prm.ModifyCQOverrun != 0 {
			prm.CQC.OverrunIgnore.Set(q.context[:], prm.CQC.OverrunIgnore.Get(c))
		}
		return nil
	}
	if selected != prm.ResizeCQEverything {
		return refuse(prm.StatusBadParam, "a resize changes size, offset and page size together, not %#x", selected)
	}
	ci, ok := q.consumer(d)
	if !ok {
		return refuse(prm.StatusBadParam, "the doorbell record of CQ %#x is not there", q.n)
	}
	if log := prm.CQC.LogCQSize.Get(c); log <= maxLogCQ && (q.pi-ci)&prm.ConsumerIndexMask >= 1<<log {
		return refuse(prm.StatusBadSize, "CQ %#x has %d completions, which do not fit into 2^%d", q.n, (q.pi-ci)&prm.ConsumerIndexMask, log)
	}
	changed := *q
	if err := changed.resize(d, in); err != nil {
		return err
	}
	// The last completion in the old memory marks the move of the queue.
	var e completion
	prm.CQE.Opcode.Set(e[:], prm.CQEResize)
	if !d.holdResize(q, &e) && !q.put(d, &e) {
		return refuse(prm.StatusBadResState, "CQ %#x is full", q.n)
	}
	q.buffer.hold(d, -1)
	q.buffer, q.size, q.logSize = changed.buffer, changed.size, changed.logSize
	q.buffer.hold(d, 1)
	return nil
}

// consumer returns the consumer index of the driver.
func (q *cq) consumer(d *Device) (uint32, bool) {
	r := d.mem.Bytes(q.record, 8)
	if r == nil || !pci.Aligned(r) {
		return 0, false
	}
	return pci.LoadWord(r) & prm.ConsumerIndexMask, true
}

// name returns the queue's name in violations.
func (q *cq) name() string { return fmt.Sprintf("CQ %#x", q.n) }

// arm handles a store to the register that arms queues.
func (q *cq) arm(d *Device, word uint32) {
	r := d.mem.Bytes(q.record, 8)
	if r == nil || !pci.Aligned(r) {
		d.violation(q.name(), "its doorbell record is not there")
		return
	}
	// The store may arrive after the next store to the record.
	if rec := pci.LoadWord(r[4:]); (rec-word)&prm.ConsumerIndexMask >= 1<<23 {
		d.violation(q.name(), "it is armed by %#08x, but its doorbell record has %#08x", word, rec)
	}
	q.armBy(d, word)
}

func (q *cq) armBy(d *Device, word uint32) {
	q.flush(d)
	ci := word & prm.ConsumerIndexMask
	if ahead := (ci - q.pi) & prm.ConsumerIndexMask; ahead != 0 && ahead < 1<<23 {
		d.violation(q.name(), "it is armed at %#x, but the device is at %#x", ci, q.pi&prm.ConsumerIndexMask)
		return
	}
	q.state = prm.CQStateArmed
	last := q.pi
	if word&prm.ArmSolicited != 0 {
		q.state, last = prm.CQStateArmedSolicited, q.solicited
	}
	// Completions that the driver has not polled cause the event at once.
	if behind := (last - ci) & prm.ConsumerIndexMask; behind != 0 && behind < 1<<23 {
		q.notify(d)
	}
}

// notify sends the requested event.
func (q *cq) notify(d *Device) {
	q.state = prm.CQStateFired
	v := &d.eqe
	*v = [prm.EQESize]byte{}
	prm.EQE.Type.Set(v[:], uint64(prm.EventCompletion))
	prm.EventCQN.Set(prm.EQE.Data.Of(v[:]), uint64(q.n))
	q.eq.post(d, v)
}
