// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"

	"purerdma/cm"
)

func TestEventLog(t *testing.T) {
	const peer = "10.8.0.1:50000"
	for _, tc := range []struct {
		server bool
		remote string
		event  cm.EventType
		want   string
	}{
		{false, peer, cm.EventAddrResolved, "cma_event type RDMA_CM_EVENT_ADDR_RESOLVED cma_id 3 (parent)\n"},
		{false, peer, cm.EventConnectResponse, "cma_event type RDMA_CM_EVENT_CONNECT_RESPONSE cma_id 3 (parent)\nCONNECT_RESPONSE\n"},
		{true, peer, cm.EventConnectRequest, "cma_event type RDMA_CM_EVENT_CONNECT_REQUEST cma_id 3 (child)\nchild cma 3\n"},
		{true, peer, cm.EventEstablished, "cma_event type RDMA_CM_EVENT_ESTABLISHED cma_id 3 (child)\nESTABLISHED\n"},
		{true, peer, cm.EventDeviceRemoval, "cma_event type RDMA_CM_EVENT_DEVICE_REMOVAL cma_id 3 (child)\n"},
		{true, cm.Addr{}.String(), cm.EventDeviceRemoval, "cma_event type RDMA_CM_EVENT_DEVICE_REMOVAL cma_id 3 (parent)\n"},
		{true, "0.0.0.0:0", cm.EventDeviceRemoval, "cma_event type RDMA_CM_EVENT_DEVICE_REMOVAL cma_id 3 (parent)\n"},
	} {
		var out bytes.Buffer
		u := newUI(&out, io.Discard)
		u.debug = true
		l := slog.New(eventLog{u, tc.server})
		l.LogAttrs(context.Background(), slog.LevelDebug, tc.event.String(), slog.String("id", "cm_id 3 (kernel ID 5)"), slog.String("state", "x"), slog.String("remote", tc.remote))
		if out.String() != tc.want {
			t.Errorf("Handle(%v) printed %q, want %q", tc.event, &out, tc.want)
		}
	}
}
