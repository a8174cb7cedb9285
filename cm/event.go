// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"sync/atomic"

	"purerdma/ucma"
	"purerdma/verbs"
)

// Event is one event of an EventChannel (struct rdma_cm_event, rdma_cma.h). Its
// data is Go memory and stays valid after Ack.
type Event struct {
	Type EventType
	// ID is the ID that the event is about: the new one for a connect request.
	ID *ID
	// Listener is, for a connect request, the ID that was asked.
	Listener *ID
	// Status is 0, a negative errno, or a status of the transport: the reason of
	// an IB rejection. It is -1 if the library made the event; then Err says
	// more.
	Status int
	// Conn holds what the peer sent: for connect requests, responses,
	// ESTABLISHED and REJECTED.
	Conn ConnParam
	// UD is the same for an ID of datagrams, and holds the address of the peer
	// or of the multicast group.
	UD UDParam
	// Multicast is, for the multicast events, the membership.
	Multicast *Multicast
	// Arg is, for EventUser and EventInternal, what WriteEvent was given.
	Arg uint64

	cause  error // of a failure that the library found
	failed bool  // at DISCONNECTED, of a connection of a Conn: the QP had failed before
	owner  *ID   // the ID that counts the event
	heldBy *Multicast
	heldAs EventType // Type is the caller's to change
	acked  atomic.Bool
}

// Ack says that the event has been dealt with (rdma_ack_cm_event(3)). Nothing is
// freed by it: it lets a waiting [ID.Destroy] or [Multicast.WaitAcked] go on. It may
// be called more than once, and need not be called by those who use [ID.Close].
func (e *Event) Ack() {
	if e.owner != nil && !e.acked.Swap(true) {
		e.owner.ack(e.heldAs, e.heldBy)
	}
}

// PrivateData returns what the peer sent along, whichever the type of the QP: see
// [ConnParam] for its length.
func (e *Event) PrivateData() []byte {
	if e.ID != nil && e.ID.datagram() {
		return e.UD.PrivateData
	}
	return e.Conn.PrivateData
}

// Err returns the error that the event reports in an OpError, nil for an event that reports
// none. It is a *RejectError, *UnreachableError, *DisconnectedError or
// *verbs.DeviceRemovedError.
func (e *Event) Err() error {
	op, err := opConnect, error(nil)
	switch e.Type {
	case EventAddrError, EventRouteError:
		if e.cause == nil {
			return e.ID.unresolved(&UnreachableError{Event: e.Type, Status: e.Status})
		}
		op, err = opResolve, e.cause
	case EventAddrInfoError:
		op, err = opService, &UnreachableError{Event: e.Type, Status: e.Status}
	case EventMulticastError:
		return &OpError{Op: opJoin, Local: e.ID.LocalAddr(), Remote: e.Multicast.Addr, Err: e.unreachable()}
	case EventUnreachable:
		err = e.unreachable()
	case EventRejected:
		rej := &RejectError{Transport: e.ID.transport(), Status: e.Status, PrivateData: e.Conn.PrivateData}
		if rej.Transport != verbs.TransportIWARP && e.Status > 0 {
			rej.Reason = e.Status
		}
		err = rej
	case EventConnectError:
		err = e.unreachable()
	case EventDisconnected:
		op, err = opConnection, &DisconnectedError{Status: e.Status}
	case EventDeviceRemoval:
		op, err = opEvent, e.ID.removedError()
	default:
		return nil
	}
	if op == opConnect && e.ID.passive {
		op = opAccept
	}
	return e.ID.opError(op, err)
}

// unreachable returns the error of an event that ends an attempt to connect or join.
func (e *Event) unreachable() error {
	u := &UnreachableError{Event: e.Type, Status: e.Status, Err: e.cause}
	if e.Type == EventUnreachable {
		u.PrivateData = e.PrivateData()
	}
	return u
}

// take notes what the kernel says about the peer, in the form that the type of
// the QP has.
func (e *Event) take(raw *ucma.Event) {
	if e.ID.datagram() {
		ud := raw.UD()
		e.UD = udParamFromKernel(&ud)
		if e.Type == EventUnreachable {
			e.UD.PrivateData = refusalData(e.ID.transport(), e.UD.PrivateData)
		}
		return
	}
	e.Conn = connParamFromKernel(raw.Conn())
	if e.Type == EventRejected {
		e.Conn.PrivateData = refusalData(e.ID.transport(), e.Conn.PrivateData)
	}
}

func (e *Event) String() string {
	return fmt.Sprintf("%v status %d %v", e.Type, e.Status, e.ID)
}
