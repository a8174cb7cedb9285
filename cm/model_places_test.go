// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import "fmt"

// modelPlaces are what a thousand runs must have come to.
var modelPlaces = []string{
	// In the end, when all is quiet.
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
	"a response that the library answers",
	"a failure of the library",

	"UNREACHABLE of datagrams, status -110", "UNREACHABLE of datagrams, status 1", "UNREACHABLE of datagrams, status 2",

	"RDMA_CM_EVENT_MULTICAST_JOIN, status 0", "RDMA_CM_EVENT_MULTICAST_ERROR, status 0",
	"RDMA_CM_EVENT_MULTICAST_ERROR, status -102",
	"an event of a membership that is left", "a QP whose ID leaves a group",

	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"bound\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"bound\", datagram true",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"listening\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"listening\", datagram true",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"connecting\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"established\", datagram false",
	"RDMA_CM_EVENT_DEVICE_REMOVAL in \"established\", datagram true",
	"a call on a device that is gone",
	"a request on a device that is gone",

	"an ID moves with events", "an ID moves with events to who waits", "an ID moves away from its event",
	"an event of an ID that is closed when it is fetched",
	"a call that fails is interrupted", "a call succeeds during another",

	"Close with events held", "Destroy that waits", "Destroy that gives up", "WaitAcked that waits", "WaitAcked that gives up",
}

// place notes what has happened to an ID.
func (r *modelRun) place(h *modelHandle, ev *Event) {
	what := fmt.Sprintf("%v in %q, datagram %v", ev.Type, h.last, h.m.ud)
	if h.m.ud && ev.Type == EventUnreachable {
		what = fmt.Sprintf("UNREACHABLE of datagrams, status %d", ev.Status)
	}
	r.seen[what]++
}
