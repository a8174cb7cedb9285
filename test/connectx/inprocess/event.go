// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"encoding/binary"
	"sync/atomic"

	"purerdma/abi"
	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
	"purerdma/uverbs"
)

// eventQueue is the device's only event queue.
type eventQueue struct {
	n    uint32
	buf  []byte
	ci   uint32
	word [4]byte // value for the doorbell
}

const logEvents = 12

// asyncEvents lists the events that programs receive.
var asyncEvents = map[prm.EventType]uverbs.EventType{
	prm.EventPathMigrated: uverbs.EventPathMig,
	prm.EventCommEst:      uverbs.EventCommEst,
	prm.EventSQDrained:    uverbs.EventSQDrained,
	prm.EventCQError:      uverbs.EventCQErr,
	prm.EventWQCatas:      uverbs.EventQPFatal,
	prm.EventPathMigFail:  uverbs.EventPathMigErr,
	prm.EventInternalErr:  uverbs.EventDeviceFatal,
	prm.EventPortChange:   uverbs.EventPortErr,
	prm.EventWQInvalidReq: uverbs.EventQPReqErr,
	prm.EventWQAccess:     uverbs.EventQPAccessErr,
	prm.EventSRQCatas:     uverbs.EventSRQErr,
	prm.EventSRQLastWQE:   uverbs.EventQPLastWQEReached,
	prm.EventSRQLimit:     uverbs.EventSRQLimitReached,
}

func (d *device) makeEQ() error {
	e := &d.events
	b := make([]byte, prm.EQESize<<logEvents+pageSize)
	e.buf = b[-address(b)%pageSize:][: prm.EQESize<<logEvents : prm.EQESize<<logEvents]
	for i := prm.EQESize - 1; i < len(e.buf); i += prm.EQESize {
		e.buf[i] = 1
	}
	d.mem.add(e.buf)
	out, err := d.command(prm.OpCreateEQ, 0x110, pageList(e.buf), 16, func(in []byte) {
		c := prm.CreateEQIn.Context.Of(in)
		prm.EQC.LogEQSize.Set(c, logEvents)
		prm.EQC.UARPage.Set(c, uint64(d.uar))
		mask := uint64(0)
		for typ := range asyncEvents {
			mask |= 1 << typ
		}
		binary.BigEndian.PutUint64(prm.CreateEQIn.Events.Of(in), mask)
	})
	if err != nil {
		return err
	}
	e.n = uint32(prm.EQNumber.Get(out))
	d.armEQ()
	return nil
}

// armEQ writes the driver's consumer index to the device, and requests an interrupt.
func (d *device) armEQ() {
	w := d.events.word[:]
	binary.BigEndian.PutUint32(w, d.events.n<<24|d.events.ci&0xffffff)
	d.hca.Ring(d.uar, connectx.RegisterEQArm, w)
}

// takeEvents takes all events from the event queue. One goroutine at a time may call it.
func (d *device) takeEvents() bool {
	if !d.irq.Swap(false) {
		return false
	}
	e := &d.events
	for {
		v := e.buf[e.ci&(1<<logEvents-1)*prm.EQESize:][:prm.EQESize]
		// The opposite access is the device's store of the owner bit.
		var last [4]byte
		binary.NativeEndian.PutUint32(last[:], atomic.LoadUint32(abi.View[uint32](v[prm.EQESize-4:])))
		if uint32(last[3]&1) != e.ci>>logEvents&1 {
			break
		}
		e.ci++
		d.event(v)
	}
	d.armEQ()
	return true
}

// event passes one event to its receiver.
func (d *device) event(v []byte) {
	data := prm.EQE.Data.Of(v)
	typ := prm.EventType(prm.EQE.Type.Get(v))
	if typ == prm.EventCompletion {
		d.mu.Lock()
		q := d.cqs[uint32(prm.EventCQN.Get(data))]
		d.mu.Unlock()
		if q != nil {
			q.Notify()
		}
		return
	}
	of, element := asyncEvents[typ], uint64(1) // 1 is the number of the port
	d.mu.Lock()
	switch of.Element() {
	case uverbs.ElementCQ:
		if q := d.cqs[uint32(prm.EventErrorCQN.Get(data))]; q != nil {
			element = q.UserHandle
		}
	case uverbs.ElementQP:
		if q := d.qps[uint32(prm.EventQPN.Get(data))]; q != nil {
			element = q.UserHandle
		}
	case uverbs.ElementSRQ:
		if q := d.srqs[uint32(prm.EventQPN.Get(data))]; q != nil {
			element = q.UserHandle
		}
	}
	d.mu.Unlock()
	if typ == prm.EventPortChange && prm.EQE.SubType.Get(v) == prm.PortActive {
		of = uverbs.EventPortActive
	}
	d.k.EventOf(d.name, of, element)
}
