// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"
	"time"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// responder is the state of a QP for its peer's requests.
type responder struct {
	recvPSN     uint32 // PSN of the next request
	established bool   // whether a message has arrived
	// Results of the last atomics, for repeated requests.
	atomics [16]struct {
		psn   uint32
		old   [8]byte
		valid bool
	}
	nextAtomic int
}

// target is the destination of a message, either a QP or a shared target.
type target struct {
	d                   *Device
	n                   uint32
	pd                  uint32
	read, write, atomic bool
	queue               *receiveQueue // nil without receives
	srq                 *srq
	cq                  *cq
	index               uint32 // user index
	scatter             uint64 // ScatterResp
	rnr                 uint64 // MinRNRNAK
	datagram            bool   // whether a header precedes the message
	l3                  uint64 // type of that header
	owner               interface {
		// fault ends the target's owner after an error, possibly with an event.
		fault(prm.EventType)
		named
	}
}

// deliver delivers a message to the receiver with its GID and number.
func (f *Fabric) deliver(m *message) answer {
	for _, d := range f.devices {
		if !d.hasGID(m.dgid) || !d.portUp() {
			continue
		}
		c := &d.fw.port.frames
		c.rdmaReceived[unicastFrames].addPackets(m.size())
		a := answer{}
		switch p := d.queues.objects[m.to].(type) {
		case *qp:
			a = p.respond(m)
		case *dct:
			a = p.respond(m)
		default:
			continue
		}
		if m.service != prm.ServiceUC {
			c.rdmaSent[unicastFrames].addPackets(m.answerSize(&a))
		}
		return a
	}
	return answer{}
}

// respond handles a message of a connected peer.
func (p *qp) respond(m *message) answer {
	why := ""
	switch {
	case p.state < prm.QPRTR || p.state == prm.QPErr:
		why = "is in no state to receive"
	case p.service != m.service || !p.connected():
		why = "has another service"
	case uint32(prm.QPC.RemoteQPN.Get(p.context[:])) != m.from.n:
		why = "is connected to another QP"
	case [16]byte(prm.ADS.RGID.Of(prm.QPC.Primary.Of(p.context[:]))) != m.sgid:
		why = "is connected to another address"
	}
	if why != "" {
		p.d.note(p, "a message of QP %#x is dropped: it %s", m.from.n, why)
		return answer{}
	}
	if !p.established {
		p.established = true
		if p.state == prm.QPRTR {
			p.d.queueEvent(prm.EventCommEst, p.n, prm.QueueTypeQP)
		}
	}
	reliable := p.service != prm.ServiceUC
	ahead := (m.psn - p.recvPSN) & psnMask
	switch {
	case ahead == 0:
	case !reliable:
		p.recvPSN = m.psn // skip lost messages
	case ahead < 1<<23:
		return answer{} // an earlier message was lost and will be repeated
	default:
		return p.repeat(m)
	}
	t, ok := p.target(m)
	if !ok {
		p.fatal(prm.EventWQInvalidReq)
		return answer{kind: refused, syndrome: prm.SyndromeRemoteInvalid}
	}
	a := t.execute(m)
	if a.kind == ack || !reliable {
		p.recvPSN = (p.recvPSN + m.psns) & psnMask
		if operations[m.opcode].atomic {
			p.remember(m.psn, a.old)
		}
	}
	return a
}

// remember saves the result of an atomic.
func (r *responder) remember(psn uint32, old [8]byte) {
	s := &r.atomics[r.nextAtomic]
	s.psn, s.old, s.valid = psn, old, true
	r.nextAtomic = (r.nextAtomic + 1) % len(r.atomics)
}

// repeat answers a repeated request. It executes a read again, but not an atomic.
func (p *qp) repeat(m *message) answer {
	switch {
	case operations[m.opcode].atomic:
		for _, s := range p.atomics {
			if s.valid && s.psn == m.psn {
				return answer{kind: ack, old: s.old}
			}
		}
		return answer{}
	case m.opcode == prm.WQERead:
		if t, ok := p.target(m); ok {
			return t.execute(m)
		}
	}
	return answer{kind: ack}
}

// target returns the destination of a message to the QP. ok is false if an XRC message refers
// to a shared receive queue that does not belong to this QP.
func (p *qp) target(m *message) (*target, bool) {
	c := p.context[:]
	t := &p.d.target
	*t = target{
		d: p.d, n: p.n, pd: p.pd.n, queue: p.recv, srq: p.srq, cq: p.recvCQ,
		read: prm.QPC.RemoteRead.Is(c), write: prm.QPC.RemoteWrite.Is(c), atomic: prm.QPC.RemoteAtomic.Is(c),
		index: uint32(prm.QPC.UserIndex.Get(c)), scatter: prm.QPC.ScatterResp.Get(c), rnr: prm.QPC.MinRNRNAK.Get(c),
		owner: p,
	}
	if p.service == prm.ServiceXRC {
		s := p.d.srqs.objects[m.srqn]
		if s == nil || !s.isXRC || s.xrcd != p.xrcd {
			return nil, false
		}
		t.srq, t.queue, t.cq, t.pd, t.index = s, &s.receiveQueue, s.cq, s.pd.n, s.index
	}
	return t, true
}

// fault moves the QP to the error state, with an event unless why is zero.
func (q *qp) fault(why prm.EventType) {
	if why != 0 {
		q.fatal(why)
		return
	}
	q.toErr()
}

// execute executes a message.
func (t *target) execute(m *message) answer {
	t.d.steps = 0
	switch m.opcode {
	case prm.WQESend, prm.WQESendImm, prm.WQESendInv:
		return t.receive(m)
	case prm.WQEWrite, prm.WQEWriteImm:
		return t.takeWrite(m)
	case prm.WQERead:
		return t.takeRead(m)
	default:
		return t.takeAtomic(m)
	}
}

// refuse answers a message that the target cannot execute, and ends the target's QP.
func (t *target) refuse(s prm.Syndrome, why prm.EventType, format string, args ...any) answer {
	t.d.note(t.owner, format, args...)
	t.owner.fault(why)
	return answer{kind: refused, syndrome: s}
}

// memoryOf returns the memory of a peer's request.
func (t *target) memoryOf(m *message, allowed bool, r right) ([][]byte, answer, bool) {
	if !allowed {
		return nil, t.refuse(prm.SyndromeRemoteInvalid, prm.EventWQInvalidReq, "%s is not for this QP", r.name), false
	}
	if m.length == 0 {
		return nil, answer{}, true // the key is not checked
	}
	var err error
	t.d.remote, err = t.d.memory(t.d.remote[:0], access{t.pd, t.n, r}, m.rkey, m.addr, m.length)
	if err != nil {
		return nil, t.refuse(prm.SyndromeRemoteAccess, prm.EventWQAccess, "%v", err), false
	}
	return t.d.remote, answer{}, true
}

func (t *target) takeWrite(m *message) answer {
	if m.opcode == prm.WQEWriteImm {
		if a, ok := t.ready(); !ok {
			return a
		}
	}
	dst, a, ok := t.memoryOf(m, t.write, remoteWrite)
	if !ok {
		return a
	}
	pci.Transfer(dst, m.data)
	if m.opcode == prm.WQEWriteImm {
		return t.receive(m)
	}
	return answer{kind: ack}
}

func (t *target) takeRead(m *message) answer {
	src, a, ok := t.memoryOf(m, t.read, remoteRead)
	if !ok {
		return a
	}
	return answer{kind: ack, data: src}
}

func (t *target) takeAtomic(m *message) answer {
	if m.addr%8 != 0 {
		return t.refuse(prm.SyndromeRemoteInvalid, prm.EventWQInvalidReq, "an atomic at %#x", m.addr)
	}
	word, a, ok := t.memoryOf(m, t.atomic, remoteAtomic)
	if !ok {
		return a
	}
	if len(word) != 1 {
		return t.refuse(prm.SyndromeRemoteAccess, prm.EventWQAccess, "an atomic on memory in pieces")
	}
	a.kind = ack
	copy(a.old[:], word[0])
	v := binary.NativeEndian.Uint64(word[0])
	switch {
	case m.opcode == prm.WQEFetchAdd:
		v += m.swapAdd
	case v == m.compare:
		v = m.swapAdd
	}
	if t.d.defects.TornAtomics {
		time.Sleep(tornTime)
	}
	binary.NativeEndian.PutUint64(word[0], v)
	return a
}

// ready reports whether there is a receive, and returns the answer if there is none.
func (t *target) ready() (answer, bool) {
	if t.queue == nil || t.cq == nil {
		return t.refuse(prm.SyndromeRemoteInvalid, prm.EventWQInvalidReq, "it takes no receives"), false
	}
	if t.queue.posted(t.d) == 0 {
		return answer{kind: notReady, after: pci.RNRDelay(uint8(t.rnr))}, false
	}
	return answer{}, true
}

// queueOwner returns the object for violations of the target's receives.
func (t *target) queueOwner() named {
	if t.srq != nil {
		return t.srq
	}
	return t.owner
}

// named is an object with a name in violations and notes.
type named interface{ name() string }

// note traces the reason why something was rejected or dropped.
func (d *Device) note(object named, format string, args ...any) {
	if d.cfg.Trace != nil {
		d.cfg.Trace(&NoteRecord{Device: d.cfg.Name, Object: object.name(), Text: fmt.Sprintf(format, args...)})
	}
}
