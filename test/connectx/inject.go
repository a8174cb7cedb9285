// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// Packet is a message on the fabric, as a test sees it that loses or delays it.
type Packet struct {
	From, To  string // devices; To is "" if it is not known
	SrcQPN    uint32
	DestQPN   uint32
	Opcode    uint8  // of the work request: prm.WQESend and its siblings
	PSN       uint32 // of its first packet; 0 of a datagram
	Length    int    // of its payload, or of what it asks for
	DestGID   [16]byte
	SourceGID [16]byte
}

// Fate is what happens to a packet.
type Fate int

// Fates of packets.
const (
	Arrives Fate = iota
	// Lost packets do not arrive.
	Lost
	// AnswerLost packets arrive, but not what the peer answers.
	AnswerLost
)

// faults are what tests have asked for.
type faults struct {
	onPacket  func(*Packet) (Fate, time.Duration)
	force     map[*qp]prm.Syndrome // of the next send
	forceRecv map[*qp]prm.Syndrome // of the next receive
}

// OnPacket has f decide what happens to each message from now on: whether it or its
// answer is lost, or, with a time, comes that much later. nil ends it. f is called
// with the fabric's lock held, and must not use its devices.
func (f *Fabric) OnPacket(fn func(*Packet) (Fate, time.Duration)) {
	f.lock()
	defer f.unlock()
	f.onPacket = fn
}

// fate is what has been decided of a message.
type fate struct {
	requestLost, answerLost bool
	delay                   time.Duration
}

// fate asks what happens to a message of d, and traces it.
func (f *Fabric) fate(d *Device, m *message) fate {
	var r fate
	if !d.portUp() {
		r.requestLost = true
	}
	if f.onPacket == nil && d.cfg.Trace == nil {
		return r
	}
	p := Packet{
		From: d.cfg.Name, SrcQPN: m.from.n, DestQPN: m.to, Opcode: m.opcode, PSN: m.psn, Length: int(m.length),
		DestGID: m.dgid, SourceGID: m.sgid,
	}
	for _, o := range f.devices {
		if o.hasGID(m.dgid) {
			p.To = o.cfg.Name
			break
		}
	}
	if f.onPacket != nil {
		what, delay := f.onPacket(&p)
		r.requestLost = r.requestLost || what == Lost || what == Arrives && delay > 0
		r.answerLost, r.delay = what == AnswerLost, delay
	}
	if d.cfg.Trace != nil {
		d.cfg.Trace(&PacketRecord{Device: d.cfg.Name, Packet: p, Lost: r.requestLost, AnswerLost: r.answerLost, Delay: r.delay})
	}
	return r
}

// forced returns the syndrome that a test wants for the QP's next request, once.
func (f *Fabric) forced(q *qp) prm.Syndrome { return taken(f.force, q) }

// forcedReceive is forced for a receive.
func (f *Fabric) forcedReceive(q *qp) prm.Syndrome { return taken(f.forceRecv, q) }

func taken(force map[*qp]prm.Syndrome, q *qp) prm.Syndrome {
	s := force[q]
	if s != prm.SyndromeNone {
		delete(force, q)
	}
	return s
}

// FailNext has the next request of a QP fail with a syndrome, as if the device had
// found it so. It returns whether there is such a QP.
func (d *Device) FailNext(qpn uint32, s prm.Syndrome) bool {
	return d.force(&d.fabric.force, qpn, s)
}

// FailNextReceive is FailNext for the next receive of a QP that a message comes for,
// which ends both QPs: the sender is told of a remote operation error.
func (d *Device) FailNextReceive(qpn uint32, s prm.Syndrome) bool {
	return d.force(&d.fabric.forceRecv, qpn, s)
}

func (d *Device) force(of *map[*qp]prm.Syndrome, qpn uint32, s prm.Syndrome) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q, ok := d.queues.objects[qpn].(*qp)
	if !ok {
		return false
	}
	if *of == nil {
		*of = make(map[*qp]prm.Syndrome)
	}
	(*of)[q] = s
	return true
}

// FailQP moves a QP to the error state by itself, and gives the event that says why:
// prm.EventWQCatas, prm.EventWQInvalidReq or prm.EventWQAccess. It returns whether
// there is such a QP.
func (d *Device) FailQP(qpn uint32, why prm.EventType) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q, ok := d.queues.objects[qpn].(*qp)
	if ok {
		q.fatal(why)
	}
	return ok
}

// FailCQ has a completion queue fail as if it had run over. It returns whether there
// is such a queue.
func (d *Device) FailCQ(cqn uint32) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q := d.cqs.objects[cqn]
	if q != nil {
		q.fail(d, prm.CQStatusOverflow, prm.CQSyndromeOverrun)
	}
	return q != nil
}

// Event gives an asynchronous event to the event queue that subscribed to its type.
// fill writes its data, of 28 bytes; it may be nil.
func (d *Device) Event(typ prm.EventType, sub uint8, fill func(data []byte)) {
	d.fabric.lock()
	defer d.fabric.unlock()
	if fill == nil {
		fill = func([]byte) {}
	}
	d.event(typ, sub, fill)
}

// SetPort takes the link down, so that nothing is sent or received, or up again, and
// tells the driver.
func (d *Device) SetPort(up bool) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.changePort(func() { d.portDown = !up })
}

// FailCommand has the next n commands of an opcode refused, without being carried
// out.
func (d *Device) FailCommand(opcode uint16, status prm.Status, syndrome uint32, n int) {
	d.fabric.lock()
	defer d.fabric.unlock()
	if d.failing == nil {
		d.failing = make(map[uint16]*failure)
	}
	d.failing[opcode] = &failure{CommandError{status, syndrome, "the test wants it so"}, n}
}

// failure is of commands that a test wants to fail.
type failure struct {
	err  CommandError
	left int
}

// failed returns how a test wants a command to fail, or nil.
func (d *Device) failed(opcode uint16) error {
	f := d.failing[opcode]
	if f == nil {
		return nil
	}
	if f.left--; f.left <= 0 {
		delete(d.failing, opcode)
	}
	return &f.err
}

// Fatal has the firmware fail: its health is bad from now on, commands are refused,
// and nothing is sent or received. A reset of the device makes it well. syndrome is
// what the initialization segment shows, such as prm.HealthFirmware.
func (d *Device) Fatal(syndrome uint8) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.fw.health = syndrome
	d.event(prm.EventInternalErr, 0, func([]byte) {})
}

// Remove takes the device away from the bus and the fabric, for good: what is read
// from it are ones, and what is written to it goes nowhere.
func (d *Device) Remove() {
	d.fabric.leave(d)
	d.fabric.lock()
	defer d.fabric.unlock()
	d.reset()
	d.removed = true
}
