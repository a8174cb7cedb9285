// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// eq is an event queue.
type eq struct {
	n       uint32
	context [64]byte // as set by the driver
	uar     *uar
	vector  int
	logSize uint
	buffer  buffer
	events  [4]uint64 // subscribed event types
	pi, ci  uint32    // ci is the driver's last value
	armed   bool
	users
}

var eqCommands = map[uint16]command{
	prm.OpCreateEQ:  {"CREATE_EQ", 0x110, 16, createEQ},
	prm.OpDestroyEQ: {"DESTROY_EQ", 16, 16, destroyEQ},
	prm.OpQueryEQ:   {"QUERY_EQ", 16, 0x110, queryEQ},
}

// Limits of event queues.
const (
	maxEQ      = 64
	maxLogEQ   = 22
	maxVectors = 64
)

func createEQ(d *Device, in, out []byte) (err error) {
	c := prm.CreateEQIn.Context.Of(in)
	d.checkReserved("CREATE_EQ", &prm.EQC, c)
	e := &eq{context: [64]byte(c), logSize: uint(prm.EQC.LogEQSize.Get(c)), vector: int(prm.EQC.Intr.Get(c))}
	for i := range e.events {
		e.events[i] = binary.BigEndian.Uint64(prm.CreateEQIn.Events.Of(in)[8*i:])
	}
	switch {
	case e.logSize > maxLogEQ:
		return refuse(prm.StatusBadParam, "an event queue has at most 2^%d entries, not 2^%d", maxLogEQ, e.logSize)
	case e.vector >= maxVectors:
		return refuse(prm.StatusBadParam, "there is no vector %d", e.vector)
	}
	if e.uar, err = d.uars.find(uint32(prm.EQC.UARPage.Get(c))); err != nil {
		return err
	}
	e.buffer, err = d.newBuffer(prm.CreateEQIn.PAS.Of(in), prm.EQC.LogPageSize.Get(c), prm.EQC.PageOffset.Get(c), prm.EQESize<<e.logSize)
	if err != nil {
		return err
	}
	if e.n, err = d.eqs.add(e); err != nil {
		return err
	}
	e.buffer.hold(d, 1)
	prm.EQNumber.Set(out, uint64(e.n))
	return nil
}

func destroyEQ(d *Device, in, _ []byte) error {
	e, err := d.eqs.remove(uint32(prm.EQNumber.Get(in)))
	if err != nil {
		return err
	}
	e.buffer.hold(d, -1)
	return nil
}

func queryEQ(d *Device, in, out []byte) error {
	e, err := d.eqs.find(uint32(prm.EQNumber.Get(in)))
	if err != nil {
		return err
	}
	c := prm.CreateEQIn.Context.Of(out)
	copy(c, e.context[:])
	prm.EQC.ConsumerCounter.Set(c, uint64(e.ci))
	prm.EQC.ProducerCounter.Set(c, uint64(e.pi))
	prm.EQC.State.Set(c, prm.EQStateFired)
	if e.armed {
		prm.EQC.State.Set(c, prm.EQStateArmed)
	}
	for i, m := range e.events {
		binary.BigEndian.PutUint64(prm.CreateEQIn.Events.Of(out)[8*i:], m)
	}
	e.buffer.put(prm.CreateEQIn.PAS.Of(out))
	return nil
}

// post adds an event to the queue and raises its interrupt if it is armed. v is the event
// without the owner bit.
func (e *eq) post(d *Device, v *[prm.EQESize]byte) {
	if (e.pi-e.ci)&0xffffff >= 1<<e.logSize {
		d.violation(fmt.Sprintf("EQ %d", e.n), "it is full: %d events of which the driver has not said that it took them", 1<<e.logSize)
		return
	}
	p := e.buffer.at(d.mem, uint64(e.pi&(1<<e.logSize-1))*prm.EQESize, prm.EQESize)
	if p == nil {
		d.violation(fmt.Sprintf("EQ %d", e.n), "its memory is not there")
		return
	}
	prm.EQE.Owner.Set(v[:], uint64(e.pi>>e.logSize&1))
	copy(p[:prm.EQESize-4], v[:])
	pci.StoreWord(p[prm.EQESize-4:], [4]byte(v[prm.EQESize-4:])) // the owner bit last
	if d.cfg.Trace != nil {
		d.cfg.Trace(&EventRecord{Device: d.cfg.Name, EQ: e.n, Index: e.pi, EQE: *v})
	}
	e.pi++
	if e.armed {
		e.armed = false
		d.interrupt(e.vector)
	}
}

// doorbell processes the driver's consumer index of an event queue, and arms the interrupt if
// arm is set.
func (e *eq) doorbell(d *Device, ci uint32, arm bool) {
	if behind := (e.pi - ci) & 0xffffff; behind > 1<<e.logSize {
		d.violation(fmt.Sprintf("EQ %d", e.n), "consumer index %#x, but the device is at %#x", ci, e.pi&0xffffff)
		return
	}
	e.ci = ci
	if !arm {
		return
	}
	e.armed = (e.pi-ci)&0xffffff == 0
	if !e.armed {
		d.interrupt(e.vector)
	}
}

// event sends an event to the queue that subscribed to its type. fill writes its data of 28
// bytes.
func (d *Device) event(typ prm.EventType, sub uint8, fill func(data []byte)) {
	for n := d.eqs.first; n < d.eqs.end; n++ {
		e := d.eqs.objects[n]
		if e == nil || e.events[typ/64]>>(typ%64)&1 == 0 {
			continue
		}
		var v [prm.EQESize]byte
		prm.EQE.Type.Set(v[:], uint64(typ))
		prm.EQE.SubType.Set(v[:], uint64(sub))
		fill(prm.EQE.Data.Of(v[:]))
		e.post(d, &v)
		return
	}
}
