// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"sync/atomic"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// Event is one event of an EventChannel (struct rdma_cm_event, rdma_cma.h). Its
// data is Go memory and stays valid after Ack.
type Event struct {
	Type EventType
	// ID is the ID that the event is about. For a connect request it is the new ID.
	ID *ID
	// Listener is the listening ID, for a connect request.
	Listener *ID
	// Status is 0, a negative errno, or a status of the transport, such as the reason of an IB
	// rejection. It is -1 if the library made the event. Err then returns the details.
	Status int
	// Conn holds the parameters that the peer sent, for connect requests, responses,
	// ESTABLISHED and REJECTED.
	Conn ConnParam
	// UD holds the parameters that the peer of a datagram ID sent, and the address of the peer
	// or of the multicast group.
	UD UDParam
	// Multicast is the membership, for the multicast events.
	Multicast *Multicast
	// Arg is the argument of WriteEvent, for EventUser and EventInternal.
	Arg uint64

	cause  error // error of a failure that the library found.
	failed bool  // at DISCONNECTED, the QP of the Conn had failed before.
	owner  *ID   // the ID that counts the event.
	heldBy *Multicast
	heldAs EventType // copy of Type, which the caller may change
	acked  atomic.Bool
}

// Ack acknowledges the event (rdma_ack_cm_event(3)). It frees nothing. It lets a waiting
// [ID.Destroy] or [Multicast.WaitAcked] continue. It may be called more than once. Programs
// that use [ID.Close] need not call it.
func (e *Event) Ack() {
	if e.owner != nil && !e.acked.Swap(true) {
		e.owner.ack(e.heldAs, e.heldBy)
	}
}

// PrivateData returns the private data that the peer sent, whichever the type of the QP.
// [ConnParam] lists its lengths.
func (e *Event) PrivateData() []byte {
	if e.ID != nil && e.ID.datagram() {
		return e.UD.PrivateData
	}
	return e.Conn.PrivateData
}

// Err returns an *OpError with the error that the event reports, nil for an event that reports
// none. The cause in the OpError depends on the type of the event:
//
//   - EventRejected: *RejectError.
//   - EventUnreachable, EventConnectError, EventRouteError, EventAddrInfoError,
//     EventMulticastError: *UnreachableError.
//   - EventAddrError: *UnreachableError, or the error of opening the device.
//   - EventDisconnected: *DisconnectedError.
//   - EventDeviceRemoval: *verbs.DeviceRemovedError.
//
// If the status of another event is ENXIO, the cause is also a *verbs.DeviceRemovedError.
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

// take copies the kernel's data about the peer, in the form for the type of the QP.
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

// EventType is the kind of an event (enum rdma_cm_event_type, rdma_cma.h;
// rdma_get_cm_event(3)).
type EventType uint32

// The events. Each comment describes the meaning of the event for an ID.
const (
	// EventAddrResolved reports that ResolveAddr has found the device and the neighbor.
	EventAddrResolved EventType = abi.RDMA_CM_EVENT_ADDR_RESOLVED
	// EventAddrError reports that ResolveAddr has failed. The call may be repeated.
	EventAddrError EventType = abi.RDMA_CM_EVENT_ADDR_ERROR
	// EventRouteResolved reports that ResolveRoute has found the path.
	EventRouteResolved EventType = abi.RDMA_CM_EVENT_ROUTE_RESOLVED
	// EventRouteError reports that ResolveRoute has failed.
	EventRouteError EventType = abi.RDMA_CM_EVENT_ROUTE_ERROR
	// EventConnectRequest reports that a peer requests a connection from a listener. Event.ID
	// is new, and Event.Listener is the listener.
	EventConnectRequest EventType = abi.RDMA_CM_EVENT_CONNECT_REQUEST
	// EventConnectResponse reports that the peer has accepted. Only an ID without a QP gets it.
	// Its user then moves the QP and calls Establish.
	EventConnectResponse EventType = abi.RDMA_CM_EVENT_CONNECT_RESPONSE
	// EventConnectError reports that establishing the connection has failed.
	EventConnectError EventType = abi.RDMA_CM_EVENT_CONNECT_ERROR
	// EventUnreachable reports that the peer does not answer a request. On an established RoCE
	// ID it is a hint. It means that the neighbor's MAC has changed, and the connection
	// continues.
	EventUnreachable EventType = abi.RDMA_CM_EVENT_UNREACHABLE
	// EventRejected reports that the peer, or its connection manager, has refused.
	EventRejected EventType = abi.RDMA_CM_EVENT_REJECTED
	// EventEstablished reports that the connection is established.
	EventEstablished EventType = abi.RDMA_CM_EVENT_ESTABLISHED
	// EventDisconnected reports that the connection has ended.
	EventDisconnected EventType = abi.RDMA_CM_EVENT_DISCONNECTED
	// EventDeviceRemoval reports that the device was removed. The ID must be closed.
	EventDeviceRemoval EventType = abi.RDMA_CM_EVENT_DEVICE_REMOVAL
	// EventMulticastJoin reports that a multicast group has been joined.
	EventMulticastJoin EventType = abi.RDMA_CM_EVENT_MULTICAST_JOIN
	// EventMulticastError reports that joining failed, or that a membership has ended.
	EventMulticastError EventType = abi.RDMA_CM_EVENT_MULTICAST_ERROR
	// EventAddrChange reports that the network device of the ID has another hardware address,
	// as after a bonding failover. It is a hint.
	EventAddrChange EventType = abi.RDMA_CM_EVENT_ADDR_CHANGE
	// EventTimewaitExit reports that the QP number of an ended connection may be used again.
	EventTimewaitExit EventType = abi.RDMA_CM_EVENT_TIMEWAIT_EXIT
	// EventAddrInfoResolved reports that ResolveIBService has found records of the service.
	EventAddrInfoResolved EventType = abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED
	// EventAddrInfoError reports that ResolveIBService has found no records of the service.
	EventAddrInfoError EventType = abi.RDMA_CM_EVENT_ADDRINFO_ERROR
	// EventUser is an event that this process sent to itself by WriteEvent.
	EventUser EventType = abi.RDMA_CM_EVENT_USER
	// EventInternal is the same as EventUser, meant for libraries.
	EventInternal EventType = abi.RDMA_CM_EVENT_INTERNAL

	numEvents = int(EventInternal) + 1
)

var eventNames = [numEvents]string{
	EventAddrResolved:     "RDMA_CM_EVENT_ADDR_RESOLVED",
	EventAddrError:        "RDMA_CM_EVENT_ADDR_ERROR",
	EventRouteResolved:    "RDMA_CM_EVENT_ROUTE_RESOLVED",
	EventRouteError:       "RDMA_CM_EVENT_ROUTE_ERROR",
	EventConnectRequest:   "RDMA_CM_EVENT_CONNECT_REQUEST",
	EventConnectResponse:  "RDMA_CM_EVENT_CONNECT_RESPONSE",
	EventConnectError:     "RDMA_CM_EVENT_CONNECT_ERROR",
	EventUnreachable:      "RDMA_CM_EVENT_UNREACHABLE",
	EventRejected:         "RDMA_CM_EVENT_REJECTED",
	EventEstablished:      "RDMA_CM_EVENT_ESTABLISHED",
	EventDisconnected:     "RDMA_CM_EVENT_DISCONNECTED",
	EventDeviceRemoval:    "RDMA_CM_EVENT_DEVICE_REMOVAL",
	EventMulticastJoin:    "RDMA_CM_EVENT_MULTICAST_JOIN",
	EventMulticastError:   "RDMA_CM_EVENT_MULTICAST_ERROR",
	EventAddrChange:       "RDMA_CM_EVENT_ADDR_CHANGE",
	EventTimewaitExit:     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	EventAddrInfoResolved: "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
	EventAddrInfoError:    "RDMA_CM_EVENT_ADDRINFO_ERROR",
	EventUser:             "RDMA_CM_EVENT_USER",
	EventInternal:         "RDMA_CM_EVENT_INTERNAL",
}

// multicast reports whether the event is about a membership instead of an ID.
func (t EventType) multicast() bool { return t == EventMulticastJoin || t == EventMulticastError }

// String returns the C name of the event (rdma_event_str(3)).
func (t EventType) String() string {
	if t < EventType(numEvents) {
		return eventNames[t]
	}
	return fmt.Sprintf("RDMA CM event %d", uint32(t))
}
