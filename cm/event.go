// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"sync/atomic"

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

	cause error // of a failure that the library found
	owner *ID   // the ID whose Destroy waits for Ack
	acked atomic.Bool
}

// Ack says that the event has been dealt with (rdma_ack_cm_event(3)). Nothing is
// freed by it: it lets a waiting [ID.Destroy] go on. It may be called more than
// once, and need not be called by those who use [ID.Close].
func (e *Event) Ack() {
	if e.owner != nil && !e.acked.Swap(true) {
		e.owner.ack(e.Type)
	}
}

// Err returns the error that the event reports, nil for one that reports none: a
// *RejectError, *UnreachableError, *ConnectError, *DisconnectedError or
// *verbs.DeviceRemovedError in an OpError.
func (e *Event) Err() error {
	op, err := opConnect, error(nil)
	switch e.Type {
	case EventAddrError, EventRouteError:
		op, err = opResolve, &UnreachableError{Event: e.Type, Status: e.Status}
		if e.cause != nil {
			err = e.cause
		}
	case EventUnreachable:
		err = &UnreachableError{Event: e.Type, Status: e.Status}
	case EventRejected:
		rej := &RejectError{Transport: e.ID.transport(), Status: e.Status, PrivateData: e.Conn.PrivateData}
		if rej.Transport != verbs.TransportIWARP && e.Status > 0 {
			rej.Reason = e.Status
		}
		err = rej
	case EventConnectError:
		err = &ConnectError{Status: e.Status, Err: e.cause}
	case EventDisconnected:
		err = &DisconnectedError{Status: e.Status}
	case EventDeviceRemoval:
		op, err = opEvent, e.ID.removedError()
	default:
		return nil
	}
	return e.ID.opError(op, err)
}

func (e *Event) String() string {
	return fmt.Sprintf("%v status %d %v", e.Type, e.Status, e.ID)
}
