// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"

	"purerdma/abi"
)

// EventType is the kind of an event (enum rdma_cm_event_type, rdma_cma.h;
// rdma_get_cm_event(3)).
type EventType uint32

// The events. Each comment says what it means for an ID.
const (
	// EventAddrResolved: ResolveAddr has found the device and the neighbour.
	EventAddrResolved EventType = abi.RDMA_CM_EVENT_ADDR_RESOLVED
	// EventAddrError: ResolveAddr has failed; it may be tried again.
	EventAddrError EventType = abi.RDMA_CM_EVENT_ADDR_ERROR
	// EventRouteResolved: ResolveRoute has found the path.
	EventRouteResolved EventType = abi.RDMA_CM_EVENT_ROUTE_RESOLVED
	// EventRouteError: ResolveRoute has failed.
	EventRouteError EventType = abi.RDMA_CM_EVENT_ROUTE_ERROR
	// EventConnectRequest: a peer asks a listener for a connection. Event.ID is
	// new, Event.Listener is the listener.
	EventConnectRequest EventType = abi.RDMA_CM_EVENT_CONNECT_REQUEST
	// EventConnectResponse: the peer has accepted; only for an ID without a QP,
	// which then moves its QP and calls Establish.
	EventConnectResponse EventType = abi.RDMA_CM_EVENT_CONNECT_RESPONSE
	// EventConnectError: establishing the connection has failed.
	EventConnectError EventType = abi.RDMA_CM_EVENT_CONNECT_ERROR
	// EventUnreachable: the peer does not answer a request. On an established
	// RoCE ID it is a hint that the neighbour's MAC has changed: the connection
	// stands.
	EventUnreachable EventType = abi.RDMA_CM_EVENT_UNREACHABLE
	// EventRejected: the peer, or its connection manager, has refused.
	EventRejected EventType = abi.RDMA_CM_EVENT_REJECTED
	// EventEstablished: the connection stands.
	EventEstablished EventType = abi.RDMA_CM_EVENT_ESTABLISHED
	// EventDisconnected: the connection has ended.
	EventDisconnected EventType = abi.RDMA_CM_EVENT_DISCONNECTED
	// EventDeviceRemoval: the device is gone, and the ID must be closed.
	EventDeviceRemoval EventType = abi.RDMA_CM_EVENT_DEVICE_REMOVAL
	// EventMulticastJoin: a multicast group has been joined.
	EventMulticastJoin EventType = abi.RDMA_CM_EVENT_MULTICAST_JOIN
	// EventMulticastError: joining failed, or a membership has ended.
	EventMulticastError EventType = abi.RDMA_CM_EVENT_MULTICAST_ERROR
	// EventAddrChange: the network device of the ID has another hardware
	// address, as after a bonding failover; a hint.
	EventAddrChange EventType = abi.RDMA_CM_EVENT_ADDR_CHANGE
	// EventTimewaitExit: the QP number of an ended connection may be used again.
	EventTimewaitExit EventType = abi.RDMA_CM_EVENT_TIMEWAIT_EXIT
	// EventAddrInfoResolved: ResolveIBService has found records of the service.
	EventAddrInfoResolved EventType = abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED
	// EventAddrInfoError: ResolveIBService has found none.
	EventAddrInfoError EventType = abi.RDMA_CM_EVENT_ADDRINFO_ERROR
	// EventUser: this process sent it to itself by WriteEvent.
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

// multicast says whether the event is about a membership instead of an ID.
func (t EventType) multicast() bool { return t == EventMulticastJoin || t == EventMulticastError }

// String returns the C name of the event (rdma_event_str(3)).
func (t EventType) String() string {
	if t < EventType(numEvents) {
		return eventNames[t]
	}
	return fmt.Sprintf("RDMA CM event %d", uint32(t))
}
