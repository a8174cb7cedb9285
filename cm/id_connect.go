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

var errNoQPNum = fmt.Errorf("the ID has no QP, and no parameters that name one: %w", syscall.EINVAL)

// Listen starts to take connect requests (rdma_listen(3)): on the bound address,
// or on every device if the ID is bound to a port alone. backlog bounds the
// requests that nobody has fetched; 0, or less, means the system's maximum.
// Requests beyond it are not answered, and the peer repeats them.
func (id *ID) Listen(backlog int) error {
	err := id.run(opListen, to(StateListening), func(f *ucma.File, kid uint32) error {
		// The socket of an iWARP driver is the thread's namespace's.
		return netns.Do(id.netNS, func() error { return f.Listen(kid, int32(min(max(backlog, 0), 1<<30))) })
	})
	if err != nil {
		return err
	}
	return id.queryAddrs()
}

// Connect sends a connect request (rdma_connect(3)). nil stands for the
// defaults of ConnParam; the number of the ID's QP, if it has one, goes into the
// request. The outcome is EventEstablished, or EventConnectResponse for an ID
// without a QP, or one of EventRejected, EventUnreachable, EventConnectError.
//
// On an ID of datagrams it looks the service of the other side up: what
// EventEstablished says about it is the address to send to, EventUnreachable that
// it does not answer or refuses. Only the private data of param counts.
//
// On iWARP it waits for the TCP connection to the peer, for two minutes if nobody
// answers, and no context ends that; [Resolved.Connect] has one. That nobody
// listens is its error there, a *RejectError, and no event.
func (id *ID) Connect(param *ConnParam) error {
	if err := id.enter(opConnect); err != nil {
		return err
	}
	defer id.leave()
	p, err := id.completeParam(opConnect, param, nil)
	if err != nil {
		return err
	}
	var k abi.UcmConnParam
	p.toKernel(&k)
	return id.refused(id.run(opConnect, to(StateConnecting), func(f *ucma.File, kid uint32) error {
		return netns.Do(id.netNS, func() error { return f.Connect(kid, &k, id.ece(false)) })
	}))
}

// Accept answers a connect request (rdma_accept(3)). nil stands for what the
// request asks for, as far as the device goes. The ID's QP, if it has one, is
// made ready to send and receive first. The outcome is EventEstablished when the
// peer has confirmed.
//
// On an ID of datagrams it tells the other side the number of the ID's QP, or
// that in param, and is done: no event follows.
//
// When Accept fails the peer is refused; parameters that are out of range are an
// error before anything has happened.
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
	// Of several calls one answers the request. The kernel would refuse the peer
	// because of the others.
	if state := id.swapState(StateRequested, next); state != StateRequested {
		return id.opError(opAccept, wrongState(state, StateRequested))
	}
	if qp != nil && !id.datagram() {
		if err := id.moveQP(qp, &p); err != nil {
			// The kernel rejects the peer when its own half of an accept
			// fails; this half is ours. A peer that has left cannot be rejected.
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

// peerGone tells the EINVAL, on iWARP the ECONNRESET, of a connect request whose
// peer has left: our own parameters have been checked, and the kernel's connection
// is in no state any more that could be accepted, or refused.
func (id *ID) peerGone(err error) error {
	var ucm *ucma.OpError
	var state *StateError // the call is what is wrong
	if id.passive && !errors.As(err, &state) && errors.As(err, &ucm) && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ECONNRESET)) {
		return &DisconnectedError{Err: err}
	}
	return err
}

// Reject refuses a connect request, with private data for the peer
// (rdma_reject(3)): see [ConnParam] for how much. On the active side it refuses an
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

// Establish confirms an EventConnectResponse (rdma_establish(3)), on an ID
// without a QP whose user has made his own QP ready to send and receive. The
// library does it for an ID that has a QP. Before that event it is an error, and the
// kernel is not asked: see Accept.
func (id *ID) Establish() error {
	if err := id.enter(opEstablish); err != nil {
		return err
	}
	defer id.leave()
	if id.QP() != nil && id.State() != StateRemoved {
		return id.opError(opEstablish, errHasQP)
	}
	// In another state the kernel would refuse the peer, and tell nobody here.
	t := &pendingTransition{after: StateEstablished, strict: true}
	return id.run(opEstablish, t, func(f *ucma.File, kid uint32) error {
		return f.Establish(kid)
	})
}

// NotifyEvent is an event of a QP that the connection manager can be told of
// (enum ibv_event_type of ibv_get_async_event(3)).
type NotifyEvent uint32

// What Notify takes.
const (
	// CommEst: data has arrived on a QP before the connection was confirmed,
	// which counts as the confirmation (IBV_EVENT_COMM_EST).
	CommEst NotifyEvent = 4
	// PathMig: the QP has moved to its alternate path (IBV_EVENT_PATH_MIG).
	PathMig NotifyEvent = 7
)

// Notify tells the connection manager of an event of the QP (rdma_notify(3)): of
// CommEst on an accepting ID, where the error is EISCONN when it is established
// already, of PathMig on an established one. On iWARP it does nothing.
func (id *ID) Notify(event NotifyEvent) error {
	op := opNotify
	switch event {
	case CommEst:
	case PathMig:
		op = opNotifyMig
	default:
		return id.opError(op, fmt.Errorf("event %d: only %d (CommEst) and %d (PathMig) are told: %w", event, CommEst, PathMig, syscall.EINVAL))
	}
	return id.run(op, nil, func(f *ucma.File, kid uint32) error {
		return f.Notify(kid, uint32(event))
	})
}

// Disconnect ends a connection, or answers the peer who has (rdma_disconnect(3)).
// The ID's QP is moved to the error state: what is posted on it is flushed. The
// outcome is EventDisconnected when the peer has answered. On iWARP it waits for up
// to 10 seconds while a request of this side is not answered; [Conn.Disconnect] has
// a context.
func (id *ID) Disconnect() error {
	if id.State() != StateDisconnected {
		id.leaving.Store(true)
	}
	if qp := id.QP(); qp != nil && !id.datagram() {
		flushQP(qp)
	}
	return id.run(opDisconnect, nil, func(f *ucma.File, kid uint32) error { return f.Disconnect(kid) })
}

// completeParam checks and completes the parameters of a call and puts the QP's
// number in. The caller keeps the ID from being destroyed.
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

// flushQP moves a QP to the error state, unless nothing is posted on it because it is
// in RESET. Several events and calls end a connection, and the first has done it.
func flushQP(qp *verbs.QP) error {
	if s := qp.State(); s == verbs.QPErr || s == verbs.QPReset {
		return nil
	}
	return qp.Modify(&flushed, verbs.QPAttrState)
}

// flushed takes a QP to the error state.
var flushed = verbs.QPAttr{State: verbs.QPErr}
