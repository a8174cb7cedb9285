// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import "fmt"

// modelPlaces lists the situations that a thousand runs must reach.
var modelPlaces = []string{
	// At the end, when no event and no message is left.
	"bound, datagram true", "listening, datagram false", "listening, datagram true", "connecting, datagram false",
	"connecting, datagram true", "connect request received, datagram true", "accepting, datagram false",
	"established, datagram false", "established, datagram true", "failed, datagram false", "failed, datagram true",
	"response received, datagram false", "disconnected, datagram false", "device removed, datagram false", "device removed, datagram true",

	"RDMA_CM_EVENT_CONNECT_RESPONSE in \"connecting\", datagram false",
	"RDMA_CM_EVENT_ESTABLISHED in \"accepting\", datagram false",
	"RDMA_CM_EVENT_ESTABLISHED in \"connecting\", datagram true",
	"RDMA_CM_EVENT_DISCONNECTED in \"established\", datagram false",
	"RDMA_CM_EVENT_REJECTED in \"connecting\", datagram false",
	"RDMA_CM_EVENT_ADDR_CHANGE in \"listening\", datagram false",
	"response that the library answers",
	"failure that the library reports",

	"UNREACHABLE of datagrams, status -110", "UNREACHABLE of datagrams, status 1", "UNREACHABLE of datagrams, status 2",

	"RDMA_CM_EVENT_MULTICAST_JOIN, status 0", "RDMA_CM_EVENT_MULTICAST_ERROR, status 0",
	"RDMA_CM_EVENT_MULTICAST_ERROR, status -102",
	"event of an ended membership", "QP whose ID leaves a group",

	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"bound\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"bound\", datagram true",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"listening\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"listening\", datagram true",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"connecting\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"established\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"established\", datagram true",
	"call on a removed device",
	"request on a removed device",

	"ID migrates with events", "ID migrates with events to a waiting goroutine", "ID migrates before its event is handled",
	"event of an ID that was closed before the fetch",
	"failing call is interrupted", "call succeeds during another call",

	"Close with unacknowledged events", "Destroy that waits", "Destroy that gives up", "WaitAcked that waits", "WaitAcked that gives up",
}

// place records an event of an ID and the state that it came in.
func (r *modelRun) place(h *modelHandle, ev *Event) {
	what := fmt.Sprintf("%v in %q, datagram %v", ev.Type, h.last, h.m.ud)
	if h.m.ud && ev.Type == EventUnreachable {
		what = fmt.Sprintf("UNREACHABLE of datagrams, status %d", ev.Status)
	}
	r.seen[what]++
}
