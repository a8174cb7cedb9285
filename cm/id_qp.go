// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"purerdma/provider"
	"purerdma/ucma"
	"purerdma/verbs"
)

// CreateQP makes a QP on the ID's device and readies it for receives to be posted
// (rdma_create_qp(3)). The connection manager moves it from then on. A datagram QP is ready to
// send at once. pd may be nil for a PD of the ID's own, which QP().PD() then returns. The type
// in cfg may be 0 for the type of the ID. The SRQ in cfg may be nil for the SRQ that CreateSRQ
// has made. The QP is destroyed with the ID. The ID's own PD is destroyed with the ID, or with
// the last memory region on it.
//
// In C the PD is the device's default PD, which [verbs.Device.DefaultPD] returns. All
// connections share it. [Dialer.PD] describes the memory that this exposes.
func (id *ID) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) error {
	// Close waits for this call. It then finds either an attached QP, or no QP on the SRQ.
	if err := id.enter(opCreateQP); err != nil {
		return err
	}
	defer id.leave()
	pd, err := id.connPD(opCreateQP, pd)
	if err != nil {
		return err
	}
	cfg.Type = cmp.Or(cfg.Type, id.qpType)
	if cfg.SRQ == nil {
		cfg.SRQ = id.SRQ()
	}
	create := id.createQP
	if create == nil {
		create = (*verbs.PD).CreateQP
	}
	qp, err := create(pd, cfg)
	if err != nil {
		return id.opError(opCreateQP, err)
	}
	if err := id.attach(qp, true); err != nil {
		qp.Close()
		return err
	}
	return nil
}

var errNoQP = fmt.Errorf("no QP is given: %w", syscall.EINVAL)

var errHasQP = fmt.Errorf("the ID has a QP already: %w", syscall.EINVAL)

// UseQP is CreateQP with a QP that the caller has made on the ID's device. The caller keeps the
// QP, and closes it after Connect or Accept has returned, before or after the ID. These calls
// name the QP by its number, which is another QP's soon after its Close.
func (id *ID) UseQP(qp *verbs.QP) error { return id.attach(qp, false) }

func (id *ID) attach(qp *verbs.QP, own bool) error {
	// enter keeps the ID while the QP is attached. A concurrent Close then finds a QP that it
	// must destroy.
	if err := id.enter(opInitQP); err != nil {
		return err
	}
	defer id.leave()
	if err := id.checkQP(qp); err != nil {
		return err
	}
	local, err := qpECE(qp)
	remote := id.RemoteECE()
	switch {
	case err != nil:
	case id.datagram():
		err = id.readyDatagram(qp)
	case remote.VendorID == 0: // there is no peer yet, or it offers nothing
		err = id.modifyQP(qp, verbs.QPInit, nil)
	default:
		local, err = id.agreeECE(qp, local, remote)
	}
	if err != nil {
		return id.opError(opInitQP, id.peerGone(err))
	}
	id.mu.Lock()
	attached := id.qp != nil
	if !attached {
		id.qp, id.ownQP, id.localECE = qp, own, local
	}
	id.mu.Unlock()
	if attached {
		return id.opError(opInitQP, errHasQP)
	}
	return nil
}

// checkQP returns why a QP cannot be attached, or nil.
func (id *ID) checkQP(qp *verbs.QP) error {
	id.mu.Lock()
	dev, has := id.dev, id.qp != nil
	id.mu.Unlock()
	switch {
	case dev == nil:
		return id.noDevice(opInitQP)
	case qp == nil:
		return id.opError(opInitQP, errNoQP)
	case has:
		return id.opError(opInitQP, errHasQP)
	case qp.Type() != id.qpType:
		return id.opError(opInitQP, fmt.Errorf("the QP is %v, the ID's port space %v takes %v: %w", qp.Type(), id.ps, id.qpType, syscall.EINVAL))
	case !qp.Device().Same(dev):
		return id.opError(opInitQP, wrongDevice(qp.Device(), dev))
	}
	return nil
}

// wrongDevice returns the error for a QP that belongs to another device than the ID.
func wrongDevice(qp, id *verbs.Device) error {
	reason := "the ID has device " + id.Name()
	if qp.Name() == id.Name() {
		reason = "the ID has another opening of that device"
	}
	return &ArgumentError{Name: "the QP's device", Value: qp.Name(), Max: -1, Reason: reason}
}

// opInitAttrs holds the names of the operation by state. They are made once, because a
// connection goes through four of them.
var opInitAttrs = func() (ops [verbs.QPErr + 1]string) {
	for s := range ops {
		ops[s] = opInitAttr + " for " + verbs.QPState(s).String()
	}
	return ops
}()

// InitQPAttr returns the attributes that take a QP of this ID to a state
// (rdma_init_qp_attr(3)). It is for programs that move a QP themselves.
func (id *ID) InitQPAttr(state verbs.QPState) (attr verbs.QPAttr, mask verbs.QPAttrMask, err error) {
	var k ucma.QPAttr
	if err := id.initQPAttr(state, &k); err != nil {
		return attr, mask, err
	}
	mask = provider.AttrFromKernel(&attr, k.Attr())
	return attr, mask, nil
}

// initQPAttr is InitQPAttr with the attributes in the kernel's form.
func (id *ID) initQPAttr(state verbs.QPState, k *ucma.QPAttr) error {
	op := opInitAttr
	if int(state) < len(opInitAttrs) {
		op = opInitAttrs[state]
	}
	return id.run(op, nil, func(f *ucma.File, kid uint32) error {
		return f.InitQPAttr(kid, uint32(state), k)
	})
}

// move holds the memory for moving a QP once. It is pooled.
type move struct {
	kernel ucma.QPAttr
	attr   verbs.QPAttr
}

var moves = sync.Pool{New: func() any { return new(move) }}

// modifyQP moves a QP to a state with the attributes that the connection manager computes. The
// depths of accepted replace the computed depths, if accepted is not nil.
func (id *ID) modifyQP(qp *verbs.QP, state verbs.QPState, accepted *ConnParam) error {
	m := moves.Get().(*move)
	defer moves.Put(m)
	return m.modifyQP(id, qp, state, accepted)
}

func (m *move) modifyQP(id *ID, qp *verbs.QP, state verbs.QPState, accepted *ConnParam) error {
	if err := id.initQPAttr(state, &m.kernel); err != nil {
		return errors.Unwrap(err)
	}
	mask := provider.AttrFromKernel(&m.attr, m.kernel.Attr())
	if accepted != nil && mask&verbs.QPAttrMaxDestRdAtomic != 0 {
		m.attr.MaxDestRdAtomic = uint8(accepted.ResponderResources)
	}
	if mask&verbs.QPAttrMaxRdAtomic != 0 {
		if accepted != nil {
			m.attr.MaxRdAtomic = uint8(accepted.InitiatorDepth)
		}
		id.readDepth.Store(int32(m.attr.MaxRdAtomic))
	}
	return qp.Modify(&m.attr, mask)
}

// moveQP takes the QP from INIT to RTS.
//
// accepted holds the depths that this side is about to accept, nil when connecting.
//
// When this side accepts, the kernel computes the attributes only from the request. It neither
// clamps the depths in the request nor compares them with the depths of this side.
//
// When this side connects, moveQP repeats INIT first, because before CONNECT the kernel
// returned no access rights, and RTR carries none. The device takes the peer's ECE options on
// the same occasion. The accepting side has had both from the start, because its ID came with
// the request.
//
// On iWARP the kernel moves the QP.
func (id *ID) moveQP(qp *verbs.QP, accepted *ConnParam) error {
	if id.iwarp() {
		return nil
	}
	if accepted == nil {
		if err := id.initAgain(qp); err != nil {
			return err
		}
	}
	m := moves.Get().(*move)
	defer moves.Put(m)
	if err := m.modifyQP(id, qp, verbs.QPRTR, accepted); err != nil {
		return err
	}
	return m.modifyQP(id, qp, verbs.QPRTS, accepted)
}

// apply makes the transition that an event means for its ID, and returns the event in the form
// for the user. A failure in apply is this ID's failure. It becomes an event, never an error of
// the channel.
func (id *ID) apply(raw *ucma.Event) *Event {
	ev := &Event{Type: EventType(raw.Type), ID: id, Status: int(raw.Status)}
	switch ev.Type {
	case EventUser, EventInternal:
		ev.Arg = raw.Arg()
	case EventConnectError:
		// The kernel sends no data with it, and siw passes on uninitialized memory.
	case EventConnectResponse:
		id.noteECE(raw)
		fallthrough
	default:
		ev.take(raw)
	}
	id.mu.Lock()
	do := id.advance(ev.Type)
	qp, dev, blocking := id.qp, id.dev, id.blocking
	id.mu.Unlock()

	switch do {
	case actDevice:
		to := id.RemoteAddr()
		err := id.bindDevice()
		if err == nil && id.Device() == nil {
			err = hint(errNoDeviceThere, id.LocalAddr(), to)
		}
		if err != nil {
			id.fail(ev, EventAddrError, err)
		}
	case actEstablish:
		if err := id.establish(qp); err != nil {
			id.fail(ev, EventConnectError, err)
			flushQP(qp)
			// Otherwise the peer would wait for the confirmation.
			id.Reject(nil)
		} else {
			ev.Type = EventEstablished
		}
	case actReady:
		id.ready(qp)
	case actFlush:
		if qp != nil {
			if blocking && ev.Type == EventDisconnected {
				ev.failed = !id.leaving.Load() && id.qpFailed(qp)
			}
			flushQP(qp)
		}
	case actRemove:
		if dev != nil {
			verbsInternal.MarkRemoved(dev)
		}
	}
	id.deliver(ev)
	return ev
}

// qpFailed reports whether a QP is in the error state without a known flush. On iWARP a QP is
// in that state at the end of every connection, so qpFailed returns false.
func (id *ID) qpFailed(qp *verbs.QP) bool {
	if id.iwarp() {
		return false
	}
	if qp.State() == verbs.QPErr {
		return true
	}
	attr, err := qp.Query()
	return err == nil && attr.State == verbs.QPErr
}

// establish does the active side's half of connecting. It moves the QP, and only then confirms
// the connection to the peer.
func (id *ID) establish(qp *verbs.QP) error {
	if err := id.moveQP(qp, nil); err != nil {
		return err
	}
	return id.run(opEstablish, nil, func(f *ucma.File, kid uint32) error { return f.Establish(kid) })
}

// fail turns an event into the failure that the library has had with it.
func (id *ID) fail(ev *Event, as EventType, cause error) {
	ev.Type, ev.Status, ev.cause = as, -1, cause
	id.mu.Lock()
	defer id.mu.Unlock()
	id.setState(StateFailed)
}

// removedError returns the error of operations after the device was removed.
func (id *ID) removedError() error {
	if dev := id.Device(); dev != nil {
		return &verbs.DeviceRemovedError{Device: dev.Name()}
	}
	// An ID that is bound only to an address has no device with a name.
	return &verbs.DeviceRemovedError{Device: "of " + id.LocalAddr().String()}
}
