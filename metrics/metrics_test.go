// SPDX-License-Identifier: Apache-2.0

//go:build linux

package metrics_test

import (
	"context"
	"encoding/json"
	"expvar"
	"reflect"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/metrics"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// counted is a kernel whose devices have counters.
type counted struct{ *cmtest.Kernel }

func (counted) PortCounters(info uverbs.DeviceInfo, port int) (map[string]uint64, error) {
	return map[string]uint64{info.Name + "_rnr_nak": uint64(port) + 6}, nil
}

// TestPublish runs a connection and compares the published variable with its operations.
func TestPublish(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	host := k.Host()
	host.Kernel = counted{k}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ln, err := (&cm.ListenConfig{Host: host}).Listen(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	var peer *cm.Conn
	go func() {
		req, err := ln.Accept(ctx)
		if err == nil {
			var inbox *verbs.MR
			if inbox, err = req.Alloc(4096, verbs.LocalWrite); err == nil {
				err = req.PostRecv(1, inbox.SGE())
			}
			if err == nil {
				peer, err = req.Accept(ctx, nil, nil)
			}
		}
		accepted <- err
	}()
	conn, err := (&cm.Dialer{Host: host}).Dial(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	if err := <-accepted; err != nil {
		t.Fatalf("the accepting side: %v", err)
	}
	defer peer.Close()
	buf, err := conn.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Conn.Alloc: %v", err)
	}
	if err := conn.Send(ctx, buf.Slice(0, 100)); err != nil {
		t.Fatalf("Conn.Send: %v", err)
	}

	metrics.Publish("rdma", host)
	var got struct {
		Devices map[string]struct {
			QPs         int
			Sends       map[string]verbs.Count
			Receives    uint64
			Completions map[string]uint64
		}
		Connections cm.Stats
		Ports       map[string]map[int]map[string]uint64
	}
	if err := json.Unmarshal([]byte(expvar.Get("rdma").String()), &got); err != nil {
		t.Fatalf("json.Unmarshal of %s: %v", expvar.Get("rdma"), err)
	}
	if s := got.Devices["rxe1"].Sends["SEND"]; s != (verbs.Count{Operations: 1, Bytes: 100}) {
		t.Errorf("SENDs of rxe1 = %+v, want 1 of 100 bytes", s)
	}
	if d := got.Devices["rxe0"]; d.Receives != 1 || d.QPs != 1 {
		t.Errorf("rxe0 = %+v, want 1 receive and 1 QP", d)
	}
	if n := got.Devices["rxe1"].Completions["success"]; n == 0 {
		t.Errorf("successes of rxe1 = 0, want at least 1")
	}
	if c := got.Connections; c.Open != 2 || c.Dials.Established != 1 || c.Accepts.Established != 1 {
		t.Errorf("connections = %+v, want 2 open ones, 1 dialled, 1 accepted", c)
	}
	want := map[string]map[int]map[string]uint64{"rxe0": {1: {"rxe0_rnr_nak": 7}}, "rxe1": {1: {"rxe1_rnr_nak": 7}}}
	if !reflect.DeepEqual(got.Ports, want) {
		t.Errorf("ports = %v, want %v", got.Ports, want)
	}
}
