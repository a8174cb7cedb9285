// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// Record is one operation of a device, such as a *[CommandRecord]. Its String method returns
// one line. Its memory is only valid during the call of [Config.Trace].
type Record interface {
	fmt.Stringer
	// DeviceName returns the name of the device.
	DeviceName() string
}

// CommandRecord is a firmware command and its answer.
type CommandRecord struct {
	Device  string
	Opcode  uint16
	In, Out []byte
	Err     error // reason of a rejection, or nil
}

// DeviceName returns r.Device.
func (r *CommandRecord) DeviceName() string { return r.Device }

func (r *CommandRecord) String() string {
	s := fmt.Sprintf("%s command %s in %d out %d", r.Device, CommandName(r.Opcode), len(r.In), len(r.Out))
	if r.Err != nil {
		return s + ": " + r.Err.Error()
	}
	if len(r.Out) >= prm.HeaderLen {
		s += fmt.Sprintf(": %x", r.Out[8:prm.HeaderLen])
	}
	// The rest consists of lists, which can be long, and mostly of zeros.
	return s + fmt.Sprintf(" of %x", bytes.TrimRight(r.In[:min(len(r.In), inputShown)], "\x00"))
}

// inputShown is the number of a command's input bytes in its line. They include headers and
// contexts.
const inputShown = 0x110

// DoorbellRecord is a store to a register page.
type DoorbellRecord struct {
	Device string
	Page   uint32
	Offset int
	Bytes  []byte
	// Posted is the current doorbell record of the store's queue. It is nil if the store has no
	// queue, such as the rest of a BlueFlame copy.
	Posted []byte
}

// DeviceName returns r.Device.
func (r *DoorbellRecord) DeviceName() string { return r.Device }

func (r *DoorbellRecord) String() string {
	s := fmt.Sprintf("%s doorbell page %#x+%#x %x", r.Device, r.Page, r.Offset, r.Bytes)
	if r.Posted != nil {
		s += fmt.Sprintf(" record %x", r.Posted)
	}
	return s
}

// traceDoorbell traces a store to a register page.
func (d *Device) traceDoorbell(page uint32, off int, p []byte) {
	if d.cfg.Trace == nil {
		return
	}
	r := &DoorbellRecord{Device: d.cfg.Name, Page: page, Offset: off, Bytes: p}
	record := uint64(0)
	switch {
	case len(p) < 8:
	case off == RegisterCQ:
		if q := d.cqs.objects[binary.BigEndian.Uint32(p[4:])]; q != nil {
			record = q.record
		}
	case off >= RegisterSend && off%sendSize == 0:
		switch q := d.queues.objects[uint32(prm.Ctrl.QPN.Get(p))].(type) {
		case *qp:
			record = q.record
		case *sq:
			record = q.record
		}
	}
	if b := d.mem.Bytes(record, prm.DoorbellRecordLength); record != 0 && b != nil && pci.Aligned(b) {
		r.Posted = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, pci.LoadWord(b)), pci.LoadWord(b[4:]))
	}
	d.cfg.Trace(r)
}

// EventRecord is an event in an event queue.
type EventRecord struct {
	Device string
	EQ     uint32
	Index  uint32 // number of earlier events
	EQE    [prm.EQESize]byte
}

// DeviceName returns r.Device.
func (r *EventRecord) DeviceName() string { return r.Device }

func (r *EventRecord) String() string {
	return fmt.Sprintf("%s event %d of EQ %d: type %#x.%d %x", r.Device, r.Index, r.EQ,
		prm.EQE.Type.Get(r.EQE[:]), prm.EQE.SubType.Get(r.EQE[:]), prm.EQE.Data.Of(r.EQE[:]))
}

// CompletionRecord is a completion in a completion queue.
type CompletionRecord struct {
	Device string
	CQ     uint32
	Index  uint32 // number of earlier completions
	CQE    [64]byte
}

// DeviceName returns r.Device.
func (r *CompletionRecord) DeviceName() string { return r.Device }

func (r *CompletionRecord) String() string {
	c := r.CQE[:]
	s := fmt.Sprintf("%s completion %d of CQ %#x: opcode %#x QP %#x WQE %#x", r.Device, r.Index, r.CQ,
		prm.CQE.Opcode.Get(c), prm.CQE.QPN.Get(c), prm.CQE.WQECounter.Get(c))
	if op := prm.CQE.Opcode.Get(c); op == prm.CQEReqErr || op == prm.CQERespErr {
		s += fmt.Sprintf(" syndrome %#x", prm.CQE.Syndrome.Get(c))
	} else {
		s += fmt.Sprintf(" %d bytes", prm.CQE.ByteCount.Get(c))
	}
	return s + fmt.Sprintf(": %x", c)
}

// RequestRecord is a work request of a send queue when the device starts or repeats it.
type RequestRecord struct {
	Device  string
	Service string // transport service of the QP, such as "RC"
	QPN     uint32
	Index   uint16 // index of its first WQEBB
	WQE     []byte
}

// DeviceName returns r.Device.
func (r *RequestRecord) DeviceName() string { return r.Device }

func (r *RequestRecord) String() string {
	return fmt.Sprintf("%s request %#x of %s QP %#x: %x", r.Device, r.Index, r.Service, r.QPN, r.WQE)
}

// ReceiveRecord is a receive when the device uses it for a message.
type ReceiveRecord struct {
	Device string
	QPN    uint32
	Queue  string // its queue, such as "QP 0x41" or "SRQ 0x1"
	Index  uint16
	WQE    []byte // its elements
}

// DeviceName returns r.Device.
func (r *ReceiveRecord) DeviceName() string { return r.Device }

func (r *ReceiveRecord) String() string {
	return fmt.Sprintf("%s receive %#x of QP %#x from %s: %x", r.Device, r.Index, r.QPN, r.Queue, r.WQE)
}

// traceReceive traces a receive.
func (t *target) traceReceive(w receive) {
	if t.d.cfg.Trace != nil {
		t.d.cfg.Trace(&ReceiveRecord{Device: t.d.cfg.Name, QPN: t.n, Queue: t.queueOwner().name(), Index: w.index, WQE: w.elements})
	}
}

// trace traces a request.
func (q *qp) trace(f *flight, w []byte) {
	if q.d.cfg.Trace != nil {
		q.d.cfg.Trace(&RequestRecord{Device: q.d.cfg.Name, Service: services[q.service], QPN: q.n, Index: f.index, WQE: w})
	}
}

// PacketRecord is a message of a device with its fate.
type PacketRecord struct {
	Device           string
	Packet           Packet
	Lost, AnswerLost bool
	Delay            time.Duration
}

// DeviceName returns r.Device.
func (r *PacketRecord) DeviceName() string { return r.Device }

func (r *PacketRecord) String() string {
	p := &r.Packet
	s := fmt.Sprintf("%s packet %#x to %q QP %#x: operation %#x PSN %#x, %d bytes", r.Device, p.SrcQPN, p.To, p.DestQPN, p.Opcode, p.PSN, p.Length)
	if r.Lost {
		s += ", lost"
	}
	if r.AnswerLost {
		s += ", answer lost"
	}
	if r.Delay > 0 {
		s += fmt.Sprintf(", after %v", r.Delay)
	}
	return s
}

// NoteRecord is the reason why the device rejected or dropped something.
type NoteRecord struct{ Device, Object, Text string }

// DeviceName returns r.Device.
func (r *NoteRecord) DeviceName() string { return r.Device }

func (r *NoteRecord) String() string {
	return fmt.Sprintf("%s note %s: %s", r.Device, r.Object, r.Text)
}
