// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"fmt"
	mathbits "math/bits"

	"purerdma/test/pci"
)

// qp is a QP.
type qp struct {
	d      *Device
	n      uint32
	kind   uint8
	handle uint64
	pd     uint32
	dpi    uint32
	kernel bool // whether it may use all memory
	allSig bool // whether all requests have completions
	// variable reports whether requests have variable sizes. The entries of the send queue are
	// slots then.
	variable bool
	messages uint32 // entries of the table of messages, or 0

	send, receive     workQueue
	sendCQ, receiveCQ *cq
	srq               *srq

	state state
	attributes
	requester
}

// Types of QPs.
const (
	typeRC  = 2
	typeUD  = 4
	typeGSI = 7
)

// requestSize is the size in bytes of a request of a fixed size. slotSize is the size of its parts.
const (
	requestSize = 128
	slotSize    = 16
)

// searchSize is the size in bytes of the entry of a request of RC in the table after the send
// queue. messageSize is the size of an entry in the table of P7, which has entries for messages.
const (
	searchSize  = 16
	messageSize = 8
)

// state is the state of a QP.
type state uint8

const (
	stateReset state = iota
	stateInit
	stateRTR
	stateRTS
	stateSQD
	stateSQE
	stateError
)

func (s state) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// attributes are the attributes that MODIFY_QP sets.
type attributes struct {
	access       uint8
	pkey         uint16
	qkey         uint32
	network      uint8
	dgid         [16]byte
	flowLabel    uint32
	sgid         uint32
	hopLimit     uint8
	trafficClass uint8
	dmac         [6]byte
	mtu          uint8 // 0 for 256 bytes, and so on
	timeout      uint8
	retryCount   uint8
	rnrRetry     uint8
	minRNR       uint8
	receivePSN   uint32
	last         executed // before receivePSN
	sendPSN      uint32
	maxReads     uint8 // in units of the device
	maxPeerReads uint8
	remoteQPN    uint32
	vlan         uint16
}

// psnMask is the mask of packet sequence numbers.
const psnMask = 1<<24 - 1

func (q *qp) name() string { return fmt.Sprintf("QP %#x", q.n) }

// Flags of CREATE_QP.
const (
	flagSRQ      = 1 << 0
	flagAllSig   = 1 << 1
	flagReserved = 1 << 2 // the reserved key is allowed
	flagFastReg  = 1 << 3
	flagVariable = 1 << 4 // requests of variable sizes
)

func createQP(d *Device, in []byte, answer *[entrySize]byte, _ []byte) (err error) {
	flags := le.Uint32(in[0x18:])
	q := &qp{d: d, handle: le.Uint64(in[0x10:]), kind: in[0x1c], dpi: le.Uint32(in[0x20:]), pd: le.Uint32(in[0x3c:])}
	// Queues of the kernel are on the first page of doorbells.
	q.kernel, q.allSig = q.dpi == 0 && flags&flagReserved != 0, flags&flagAllSig != 0
	switch {
	case q.kind != typeRC && q.kind != typeUD && q.kind != typeGSI:
		return invalid("QPs of type %d", q.kind)
	case flags&^(flagSRQ|flagAllSig|flagReserved|flagFastReg|flagVariable) != 0 || flags&flagVariable != 0 && !d.p7():
		return invalid("flags %#x", flags)
	case q.dpi >= maxDPI:
		return invalid("there is no DPI %d", q.dpi)
	}
	if q.sendCQ, err = d.cq(le.Uint32(in[0x30:])); err != nil {
		return err
	}
	if q.receiveCQ, err = d.cq(le.Uint32(in[0x34:])); err != nil {
		return err
	}
	if err := q.createSend(in, flags&flagVariable != 0); err != nil {
		return fmt.Errorf("send queue: %w", err)
	}
	if flags&flagSRQ != 0 {
		if q.srq, err = d.srq(le.Uint32(in[0x38:])); err != nil {
			return err
		}
	} else {
		sges := uint32(le.Uint16(in[0x2e:]) & 0xf)
		if q.receive, err = d.newWorkQueue(le.Uint64(in[0x48:]), int(in[0x1e]&0xf), in[0x1e]>>4, le.Uint32(in[0x28:]), (2+sges)*slotSize, 2*maxRequests, 0); err != nil {
			return fmt.Errorf("receive queue: %w", err)
		}
	}
	q.n = gsiQP
	if q.kind != typeGSI {
		var ok bool
		if q.n, ok = number(d, d.qps, "QP", firstQP, maxQP-1); !ok {
			return refuse(channelNoResource, "there are %d QPs", len(d.qps))
		}
	} else if d.qps[gsiQP] != nil {
		return invalid("QP 1 exists")
	}
	q.hold(1)
	d.qps[q.n] = q
	le.PutUint32(answer[4:], q.n)
	return nil
}

// createSend creates the send queue, and the table after it.
func (q *qp) createSend(in []byte, variable bool) (err error) {
	depth, size, limit, table := le.Uint32(in[0x24:]), uint32(requestSize), uint32(2*maxRequests), uint64(0)
	if q.variable = variable; variable {
		size, limit = slotSize, maxSendSlots
	}
	switch {
	case q.kind != typeRC || depth > limit:
	case q.d.p7():
		if q.messages = 1 << mathbits.Len32(depth-1); variable {
			q.messages /= 2
		}
		table = uint64(q.messages) * messageSize
	default:
		table = uint64(depth) * searchSize
	}
	q.send, err = q.d.newWorkQueue(le.Uint64(in[0x40:]), int(in[0x1d]&0xf), in[0x1d]>>4, depth, size, limit, table)
	return err
}

// hold counts the QP as a user of its queues.
func (q *qp) hold(n int) {
	q.sendCQ.users += n
	q.receiveCQ.users += n
	if q.srq != nil {
		q.srq.users += n
	}
}

// qp returns the QP with a number.
func (d *Device) qp(n uint32) (*qp, error) {
	q := d.qps[n]
	if q == nil {
		return nil, invalid("there is no QP %#x", n)
	}
	return q, nil
}

func destroyQP(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	q, err := d.qp(le.Uint32(in[0x10:]))
	if err != nil {
		return err
	}
	q.stop()
	q.hold(-1)
	q.unbindWindows()
	delete(d.qps, q.n)
	le.PutUint32(answer[4:], q.n)
	return nil
}

// unbindWindows ends the bindings of the windows of the QP.
func (q *qp) unbindWindows() {
	for _, m := range q.d.mrs {
		if m.qp == q {
			m.unbind()
		}
	}
}

// Bits of the mask of MODIFY_QP.
const (
	setState = 1 << iota
	_
	setAccess
	setPKey
	setQKey
	setDGID
	setFlowLabel
	setSGID
	setHopLimit
	setTrafficClass
	setDMAC
	_
	setMTU
	setTimeout
	setRetryCount
	setRNRRetry
	setReceivePSN
	setMaxReads
	setMinRNR
	setSendPSN
	setMaxPeerReads
	setRemoteQPN = 1 << 26
	setVLAN      = 1 << 28
)

func modifyQP(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	q, err := d.qp(le.Uint32(in[0x14:]))
	if err != nil {
		return err
	}
	mask, to := le.Uint32(in[0x10:]), q.state
	if mask&setState != 0 {
		if to = state(in[0x18] & 0xf); !allowed(q.state, to) {
			return invalid("%s: transition from %v to %v", q.name(), q.state, to)
		}
	}
	a := q.attributes
	a.network = in[0x18] >> 6
	for bit, set := range map[uint32]func(){
		setAccess:       func() { a.access = in[0x19] },
		setPKey:         func() { a.pkey = le.Uint16(in[0x1a:]) },
		setQKey:         func() { a.qkey = le.Uint32(in[0x1c:]) },
		setDGID:         func() { a.dgid = [16]byte(in[0x20:]) },
		setFlowLabel:    func() { a.flowLabel = le.Uint32(in[0x30:]) },
		setSGID:         func() { a.sgid = uint32(le.Uint16(in[0x34:])) },
		setHopLimit:     func() { a.hopLimit = in[0x36] },
		setTrafficClass: func() { a.trafficClass = in[0x37] },
		setDMAC:         func() { a.dmac = [6]byte(in[0x38:]) },
		setMTU:          func() { a.mtu = in[0x3f] >> 4 },
		setTimeout:      func() { a.timeout = in[0x40] & 31 },
		setRetryCount:   func() { a.retryCount = in[0x41] & 7 },
		setRNRRetry:     func() { a.rnrRetry = in[0x42] & 7 },
		setMinRNR:       func() { a.minRNR = in[0x43] & 31 },
		setReceivePSN:   func() { a.receivePSN, a.last = le.Uint32(in[0x44:])&psnMask, executed{} },
		setSendPSN:      func() { a.sendPSN = le.Uint32(in[0x48:]) & psnMask },
		setMaxReads:     func() { a.maxReads = in[0x4c] },
		setMaxPeerReads: func() { a.maxPeerReads = in[0x4d] },
		setRemoteQPN:    func() { a.remoteQPN = le.Uint32(in[0x60:]) & psnMask },
		setVLAN:         func() { a.vlan = le.Uint16(in[0x6e:]) },
	} {
		if mask&bit != 0 {
			set()
		}
	}
	if mask&setState != 0 && to == stateReset {
		a = attributes{}
	}
	if to >= stateRTR && to < stateError && q.kind == typeRC && d.gids[a.sgid] == nil {
		return invalid("%s: there is no address %d", q.name(), a.sgid)
	}
	if a.mtu > 5 {
		return invalid("%s: MTU %d", q.name(), a.mtu)
	}
	q.attributes = a
	if mask&setState != 0 {
		q.changeState(to)
	}
	le.PutUint32(answer[4:], q.n)
	return nil
}

// allowed reports whether a driver may change the state of a QP.
func allowed(from, to state) bool {
	switch to {
	case stateReset, stateError:
		return true
	case stateInit:
		return from == stateReset || from == stateInit
	case stateRTR:
		return from == stateInit
	case stateRTS:
		return from == stateRTR || from == stateRTS || from == stateSQD || from == stateSQE
	case stateSQD:
		return from == stateRTS || from == stateSQD
	}
	return false
}

// changeState changes the state by a command.
func (q *qp) changeState(to state) {
	from := q.state
	switch q.state = to; {
	case to == stateReset:
		q.stop()
		q.requester = requester{}
		q.send.pi, q.send.ci, q.receive.pi, q.receive.ci = 0, 0, 0, 0
		q.unbindWindows()
	case to == stateError && from != stateError:
		q.flush()
		if q.srq != nil {
			q.notifyError(0, 0)
		}
	case to == stateRTS:
		q.run()
	}
}

// fail moves the QP to the error state after an error of its requests or of its peer's requests.
func (q *qp) fail(request, response uint8) {
	if q.state == stateError {
		return
	}
	q.state = stateError
	q.flush()
	q.notifyError(request, response)
}

// flush stops the QP. A last completion on each CQ makes programs complete all posted requests
// and receives by themselves.
func (q *qp) flush() {
	q.stop()
	var e cqe
	le.PutUint64(e[:], q.handle)
	le.PutUint16(e[8:], q.consumed())
	const none = 0xffff
	le.PutUint16(e[10:], none)
	if q.srq == nil {
		le.PutUint16(e[10:], uint16(q.receive.ci%uint64(q.receive.depth)))
	}
	e.set(completeTerminal, 0, 0)
	first := e
	q.sendCQ.post(&first, true)
	if q.receiveCQ != q.sendCQ {
		q.receiveCQ.post(&e, true)
	}
}

// notifyError writes an event with the reasons of an error, or of the last receive of an SRQ.
func (q *qp) notifyError(request, response uint8) {
	q.d.trace("%s error: request %#x, response %#x", q.name(), request, response)
	if q.d.answers == nil {
		return
	}
	var e [entrySize]byte
	e[0], e[9] = channelEvent, eventQPError
	e[3], e[11] = request, response
	le.PutUint32(e[4:], q.n)
	le.PutUint16(e[12:], q.consumed())
	q.d.answers.notify(e)
}

func queryQP(d *Device, in []byte, answer *[entrySize]byte, side []byte) error {
	q, err := d.qp(le.Uint32(in[0x10:]))
	switch {
	case err != nil:
		return err
	case len(side) < 0x68:
		return invalid("%d bytes for the answer", len(side))
	}
	le.PutUint32(side[0x8:], q.n)
	side[0xc], side[0xd] = byte(q.state), q.access
	le.PutUint16(side[0xe:], q.pkey)
	le.PutUint32(side[0x10:], q.qkey)
	copy(side[0x18:], q.dgid[:])
	le.PutUint32(side[0x28:], q.flowLabel)
	le.PutUint16(side[0x2c:], uint16(q.sgid))
	side[0x2e], side[0x2f] = q.hopLimit, q.trafficClass
	copy(side[0x30:], q.dmac[:])
	le.PutUint16(side[0x36:], uint16(q.mtu)<<12|q.vlan&0xfff)
	side[0x38], side[0x39], side[0x3a], side[0x3b] = q.timeout, q.retryCount, q.rnrRetry, q.minRNR
	le.PutUint32(side[0x3c:], q.receivePSN)
	le.PutUint32(side[0x40:], q.sendPSN)
	side[0x44], side[0x45] = q.maxReads, q.maxPeerReads
	le.PutUint32(side[0x48:], q.send.depth)
	le.PutUint32(side[0x4c:], q.receive.depth)
	le.PutUint16(side[0x50:], maxSGE)
	le.PutUint16(side[0x52:], maxSGE)
	le.PutUint32(side[0x54:], maxInline)
	le.PutUint32(side[0x58:], q.remoteQPN)
	copy(side[0x60:], d.mac[:])
	le.PutUint32(answer[4:], q.n)
	return nil
}

// requester is the state of the send queue.
type requester struct {
	completed uint64 // requests
	message   uint32 // index of the next entry in the table of messages

	timer      pci.Timer
	running    bool
	blocked    bool // whether the next request waits for the timer
	retries    uint8
	rnrRetries uint8
	repeated   bool  // whether the next request is a repetition
	failNext   uint8 // status of a fault, see faults
}
