// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/netns"
	"purerdma/ucma"
	"purerdma/verbs"
)

var errNoQPNum = fmt.Errorf("the ID has no QP, and ConnParam names none: %w", syscall.EINVAL)

// Listen starts to take connect requests (rdma_listen(3)) on the bound address. An ID that is
// bound only to a port takes requests on every device. backlog bounds the requests that the
// program has not fetched. 0 or a negative value means the system's maximum. The kernel does
// not answer requests beyond it, and the peer repeats them.
func (id *ID) Listen(backlog int) error {
	err := id.run(opListen, to(StateListening), func(f *ucma.File, kid uint32) error {
		// The socket of an iWARP driver belongs to the network namespace of the calling thread.
		return netns.Do(id.netNS, func() error { return f.Listen(kid, int32(min(max(backlog, 0), 1<<30))) })
	})
	if err != nil {
		return err
	}
	return id.queryAddrs()
}

// Connect sends a connect request (rdma_connect(3)). A nil param means the defaults of
// ConnParam. If the ID has a QP, its number goes into the request. The outcome is
// EventEstablished, or EventConnectResponse for an ID without a QP, or one of EventRejected,
// EventUnreachable and EventConnectError.
//
// On a datagram ID Connect looks up the service of the other side. EventEstablished then
// carries the address to send to. EventUnreachable means that the other side does not answer or
// refuses. Connect uses only the private data of param.
//
// On siw Connect waits for the TCP connection to the peer, for two minutes if the peer does
// not answer. No context ends that wait, but [Resolved.Connect] takes a context. If the peer's
// port has no listener, Connect returns a *RejectError there, and no event follows.
func (id *ID) Connect(param *ConnParam) error {
	if err := id.enter(opConnect); err != nil {
		return err
	}
	defer id.leave()
	p, err := id.completeParam(opConnect, param, nil)
	if err != nil {
		return err
	}
	id.limitReads(&p)
	var k abi.UcmConnParam
	p.toKernel(&k)
	return id.refused(id.run(opConnect, to(StateConnecting), func(f *ucma.File, kid uint32) error {
		return netns.Do(id.netNS, func() error { return f.Connect(kid, &k, id.ece(false)) })
	}))
}

// Accept answers a connect request (rdma_accept(3)). A nil param means the values in the
// request, within the limits of the device. If the ID has a QP, Accept first makes it ready to
// send and receive. The outcome is EventEstablished when the peer has confirmed.
//
// On a datagram ID Accept sends the other side the number of the ID's QP, or the number in
// param if the ID has no QP. No event follows.
//
// A failed Accept rejects the peer. The exception is an error for parameters that are out of
// range, which Accept returns before it has done anything.
func (id *ID) Accept(param *ConnParam) error {
	if err := id.enter(opAccept); err != nil {
		return err
	}
	defer id.leave()
	id.mu.Lock()
	requested, qp, state := id.requested, id.qp, id.current()
	id.mu.Unlock()
	if state != StateRequested {
		return id.opError(opAccept, wrongState(state, StateRequested))
	}
	p, err := id.completeParam(opAccept, param, &requested)
	if err != nil {
		return err
	}
	next := StateAccepting
	if id.datagram() {
		next = StateEstablished
	}
	// Only one of several calls answers the request. The kernel would reject the peer because
	// of the other calls.
	if state := id.swapState(StateRequested, next); state != StateRequested {
		return id.opError(opAccept, wrongState(state, StateRequested))
	}
	id.limitReads(&p)
	if qp != nil && !id.datagram() {
		if err := id.moveQP(qp, &p); err != nil {
			// The kernel rejects the peer when its own half of an accept fails. The move of the
			// QP is the library's half, so the library rejects the peer. A peer that has left
			// cannot be rejected.
			id.Reject(nil)
			id.swapState(next, StateFailed)
			flushQP(qp)
			return id.opError(opAccept, id.peerGone(err))
		}
	}
	var k abi.UcmConnParam
	p.toKernel(&k)
	err = id.run(opAccept, nil, func(f *ucma.File, kid uint32) error {
		return f.Accept(kid, id.uid, &k, id.ece(true))
	})
	if err == nil {
		id.ready(qp)
		return nil
	}
	id.swapState(next, StateFailed)
	if qp != nil && !id.datagram() {
		flushQP(qp)
	}
	oe := err.(*OpError)
	oe.Err = id.peerGone(oe.Err)
	return oe
}

// peerGone returns a *DisconnectedError for the EINVAL of a connect request whose peer has
// left, on iWARP for the ECONNRESET. The library has checked its own parameters. EINVAL
// therefore means that the kernel's connection is in a state in which it can be neither
// accepted nor rejected.
func (id *ID) peerGone(err error) error {
	var ucm *ucma.OpError
	var state *StateError // the call was wrong
	if id.passive && !errors.As(err, &state) && errors.As(err, &ucm) && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ECONNRESET)) {
		return &DisconnectedError{Err: err}
	}
	return err
}

// Reject refuses a connect request and sends the peer private data (rdma_reject(3)).
// [ConnParam] lists the maximum lengths. On the active side Reject refuses an
// EventConnectResponse.
func (id *ID) Reject(privateData []byte) error { return id.reject(privateData, 0) }

func (id *ID) reject(privateData []byte, reason uint8) error {
	if err := id.checkPrivateData(opReject, privateData); err != nil {
		return err
	}
	err := id.run(opReject, to(StateFailed), func(f *ucma.File, kid uint32) error {
		return f.Reject(kid, privateData, reason)
	})
	if oe, ok := err.(*OpError); ok {
		oe.Err = id.peerGone(oe.Err)
	}
	return err
}

// Establish confirms an EventConnectResponse (rdma_establish(3)). It is for an ID without a QP,
// whose user has made a separate QP ready to send and receive. For an ID that has a QP the
// library confirms by itself. Before that event Establish fails without a command to the
// kernel, which would reject the peer (see Accept).
func (id *ID) Establish() error {
	if err := id.enter(opEstablish); err != nil {
		return err
	}
	defer id.leave()
	if id.QP() != nil && id.State() != StateRemoved {
		return id.opError(opEstablish, errHasQP)
	}
	// In another state the kernel would reject the peer, and report that to no one on this
	// side.
	t := &pendingTransition{after: StateEstablished, strict: true}
	return id.run(opEstablish, t, func(f *ucma.File, kid uint32) error {
		return f.Establish(kid)
	})
}

// NotifyEvent is an event of a QP that a program can report to the connection manager (enum
// ibv_event_type of ibv_get_async_event(3)).
type NotifyEvent uint32

// Events that Notify accepts.
const (
	// CommEst means that data has arrived on a QP before the connection was confirmed. It
	// counts as the confirmation (IBV_EVENT_COMM_EST).
	CommEst NotifyEvent = 4
	// PathMig means that the QP has moved to its alternate path (IBV_EVENT_PATH_MIG).
	PathMig NotifyEvent = 7
)

// Notify reports an event of the QP to the connection manager (rdma_notify(3)). CommEst is for
// an accepting ID. The error is EISCONN if that ID is already established. PathMig is for an
// established ID. On iWARP Notify does nothing.
func (id *ID) Notify(event NotifyEvent) error {
	op := opNotify
	switch event {
	case CommEst:
	case PathMig:
		op = opNotifyMig
	default:
		return id.opError(op, fmt.Errorf("event %d, want %d (CommEst) or %d (PathMig): %w", event, CommEst, PathMig, syscall.EINVAL))
	}
	return id.run(op, nil, func(f *ucma.File, kid uint32) error {
		return f.Notify(kid, uint32(event))
	})
}

// Disconnect ends a connection, or answers a peer that has ended it (rdma_disconnect(3)). It
// moves the ID's QP to the error state, which flushes the posted work requests. The outcome is
// EventDisconnected when the peer has answered. On iWARP Disconnect waits for up to 10 seconds
// while a request of this side is not answered. [Conn.Disconnect] takes a context.
func (id *ID) Disconnect() error {
	if id.State() != StateDisconnected {
		id.leaving.Store(true)
	}
	if qp := id.QP(); qp != nil && !id.datagram() {
		flushQP(qp)
	}
	return id.run(opDisconnect, nil, func(f *ucma.File, kid uint32) error { return f.Disconnect(kid) })
}

// completeParam checks and completes the parameters of a call, and adds the QP's number. The
// caller keeps the ID from being destroyed.
func (id *ID) completeParam(op string, param *ConnParam, request *depths) (ConnParam, error) {
	dev := id.Device()
	if dev == nil {
		return ConnParam{}, id.noDevice(op)
	}
	if err := id.checkParam(op, param); err != nil {
		return ConnParam{}, err
	}
	qp := id.QP()
	if qp == nil && param == nil && !(op == opConnect && id.datagram()) {
		return ConnParam{}, id.opError(op, errNoQPNum)
	}
	p, err := param.complete(dev.Attr(), request, id.datagram())
	if err != nil {
		return p, id.opError(op, err)
	}
	if qp != nil {
		p.QPNum, p.SRQ = qp.Num(), qp.SRQ() != nil
	}
	return p, nil
}

// flushQP moves a QP to the error state. It skips a QP in RESET, on which nothing is posted. It
// also skips a QP in the error state, because several events and calls end a connection, and
// the first of them has moved the QP.
func flushQP(qp *verbs.QP) error {
	if s := qp.State(); s == verbs.QPErr || s == verbs.QPReset {
		return nil
	}
	return qp.Modify(&flushed, verbs.QPAttrState)
}

// flushed holds the attribute that moves a QP to the error state.
var flushed = verbs.QPAttr{State: verbs.QPErr}
