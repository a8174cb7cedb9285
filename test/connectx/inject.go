// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// Packet describes a message on the fabric to a test that loses or delays it.
type Packet struct {
	From, To  string // devices, To is "" if unknown.
	SrcQPN    uint32
	DestQPN   uint32
	Opcode    uint8  // opcode of the work request, such as prm.WQESend.
	PSN       uint32 // PSN of its first packet, 0 for a datagram.
	Length    int    // length of its payload, or of the requested data
	DestGID   [16]byte
	SourceGID [16]byte
}

// Fate is the treatment of a packet.
type Fate int

// Fates of packets.
const (
	Arrives Fate = iota
	// Lost packets do not arrive.
	Lost
	// AnswerLost packets arrive, but the peer's answer does not.
	AnswerLost
)

// faults contains the faults that tests have injected.
type faults struct {
	onPacket  func(*Packet) (Fate, time.Duration)
	force     map[*qp]prm.Syndrome // syndrome of the next send
	forceRecv map[*qp]prm.Syndrome // syndrome of the next receive
}

// OnPacket sets a function that determines the fate of each message. It can lose the message or
// its answer, or delay the message by a duration. A nil function delivers all messages. The
// function is called with the fabric's lock held and must not use its devices.
func (f *Fabric) OnPacket(fn func(*Packet) (Fate, time.Duration)) {
	f.lock()
	defer f.unlock()
	f.onPacket = fn
}

// fate is the determined fate of a message. With a delay, the message or its answer arrives after the delay.
type fate struct {
	requestLost, answerLost bool
	delay                   time.Duration
}

// arrives reports whether the message arrives now.
func (f *fate) arrives() bool { return !f.requestLost && (f.delay == 0 || f.answerLost) }

// fate determines the fate of a message of d, and traces it.
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
		r.requestLost = r.requestLost || what == Lost
		r.answerLost, r.delay = what == AnswerLost, delay
	}
	if d.cfg.Trace != nil {
		d.cfg.Trace(&PacketRecord{Device: d.cfg.Name, Packet: p, Lost: r.requestLost, AnswerLost: r.answerLost, Delay: r.delay})
	}
	return r
}

// forced returns the injected syndrome for the QP's next request, once.
func (f *Fabric) forced(q *qp) prm.Syndrome { return taken(f.force, q) }

// forcedReceive is like forced for a receive.
func (f *Fabric) forcedReceive(q *qp) prm.Syndrome { return taken(f.forceRecv, q) }

func taken(force map[*qp]prm.Syndrome, q *qp) prm.Syndrome {
	s := force[q]
	if s != prm.SyndromeNone {
		delete(force, q)
	}
	return s
}

// FailNext makes the next request of a QP fail with a syndrome, as if the device had detected
// the failure. It returns whether there is such a QP.
func (d *Device) FailNext(qpn uint32, s prm.Syndrome) bool {
	return d.force(&d.fabric.force, qpn, s)
}

// FailNextReceive is like FailNext for the next receive of a QP that takes a message. The
// failure ends both QPs. The sender gets a remote operation error.
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

// FailQP moves a QP to the error state and sends the event with the reason, which is
// prm.EventWQCatas, prm.EventWQInvalidReq or prm.EventWQAccess. It returns whether there is
// such a QP.
func (d *Device) FailQP(qpn uint32, why prm.EventType) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q, ok := d.queues.objects[qpn].(*qp)
	if ok {
		q.fatal(why)
	}
	return ok
}

// FailCQ makes a completion queue fail like after an overrun. It returns whether there is such
// a queue.
func (d *Device) FailCQ(cqn uint32) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q := d.cqs.objects[cqn]
	if q != nil {
		q.fail(d, prm.CQStatusOverflow, prm.CQSyndromeOverrun)
	}
	return q != nil
}

// Event sends an asynchronous event to the event queue that subscribed to its type. fill writes
// its data of 28 bytes and may be nil.
func (d *Device) Event(typ prm.EventType, sub uint8, fill func(data []byte)) {
	d.fabric.lock()
	defer d.fabric.unlock()
	if fill == nil {
		fill = func([]byte) {}
	}
	d.event(typ, sub, fill)
}

// SetPort sets the link down, so that the port neither sends nor receives, or up again. It
// notifies the driver.
func (d *Device) SetPort(up bool) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.changePort(func() { d.portDown = !up })
}

// SetRemoving sets whether the driver of the device is being removed. The kernel destroys the objects of programs before
// it takes their register pages away (ufile_destroy_ucontext). So until then their stores may be for objects that
// have been destroyed, and are no violations.
func (d *Device) SetRemoving(yes bool) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.removing = yes
}

// FailCommand rejects the next n commands of an opcode without executing them.
func (d *Device) FailCommand(opcode uint16, status prm.Status, syndrome uint32, n int) {
	d.fabric.lock()
	defer d.fabric.unlock()
	if d.failing == nil {
		d.failing = make(map[uint16]*failure)
	}
	d.failing[opcode] = &failure{CommandError{status, syndrome, "the test wants it so"}, n}
}

// failure describes injected command failures.
type failure struct {
	err  CommandError
	left int
}

// failed returns the injected failure of a command, or nil.
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

// Fatal makes the firmware fail. Its health is bad, commands are rejected, and no messages are
// sent or received, until the device is reset. The initialization segment contains syndrome,
// such as prm.HealthFirmware.
func (d *Device) Fatal(syndrome uint8) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.fw.health = syndrome
	d.event(prm.EventInternalErr, 0, func([]byte) {})
}

// Remove permanently removes the device from the bus and the fabric. Reads from it return ones,
// and writes have no effect.
func (d *Device) Remove() {
	d.fabric.leave(d)
	d.fabric.lock()
	defer d.fabric.unlock()
	d.reset()
	d.removed = true
}
