// SPDX-License-Identifier: Apache-2.0

//go:build linux

package metrics_test

import (
	"context"
	"encoding/json"
	"expvar"
	"io"
	"maps"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/metrics"
	"purerdma/msg"
	"purerdma/pool"
	"purerdma/stream"
	"purerdma/uverbs/uverbstest"
)

// TestObjects compares the sums of objects with their operations, while they are open and after they were closed.
func TestObjects(t *testing.T) {
	host := cmtest.New(uverbstest.New("rxe0", "rxe1")).Host()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	objects := func() map[string]metrics.Objects { return metrics.Read(host).Objects }
	if n := len(objects()); n != 0 {
		t.Errorf("kinds of objects of a new Host = %d, want 0", n)
	}

	ln, err := (&stream.ListenConfig{CM: cm.ListenConfig{Host: host}, Private: true}).Listen(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("stream.ListenConfig.Listen: %v", err)
	}
	conn, err := (&stream.Dialer{CM: cm.Dialer{Host: host}}).DialContext(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("stream.Dialer.DialContext: %v", err)
	}
	peer, err := ln.Accept()
	if err != nil {
		t.Fatalf("net.Listener.Accept: %v", err)
	}
	if _, err := conn.Write(make([]byte, 100)); err != nil {
		t.Fatalf("stream.Conn.Write: %v", err)
	}
	if _, err := io.ReadFull(peer, make([]byte, 100)); err != nil {
		t.Fatalf("io.ReadFull: %v", err)
	}
	messages, err := (&msg.ListenConfig{CM: cm.ListenConfig{Host: host}}).Listen(ctx, "tcp", "10.0.0.1:7472")
	if err != nil {
		t.Fatalf("msg.ListenConfig.Listen: %v", err)
	}
	sender, err := (&msg.Dialer{CM: cm.Dialer{Host: host}}).Dial(ctx, "tcp", "10.0.0.1:7472")
	if err != nil {
		t.Fatalf("msg.Dialer.Dial: %v", err)
	}
	receiver, err := messages.Accept(ctx)
	if err != nil {
		t.Fatalf("msg.Listener.Accept: %v", err)
	}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("Device.AllocPD: %v", err)
	}
	before := objects()["pool"]
	p, err := pool.New(pd, pool.Config{})
	if err != nil {
		t.Fatalf("pool.New: %v", err)
	}
	buf, err := p.Get(ctx, 4096)
	if err != nil {
		t.Fatalf("Pool.Get: %v", err)
	}

	open := objects()
	for kind, want := range map[string]int{"listener": 2, "queue": 4, "stream": 2, "msg": 2, "pool": before.Open + 1} {
		if got := open[kind].Open; got != want {
			t.Errorf("open objects of kind %s = %d, want %d", kind, got, want)
		}
	}
	s := open["stream"].Counters
	if s["BytesSent"] != 100 || s["BytesReceived"] != 100 || s["FramesSent"] == 0 || s["FramesReceived"] == 0 {
		t.Errorf("counters of streams = %v, want 100 bytes sent and received in frames", s)
	}
	if got := open["pool"]; got.Counters["Gets"] != before.Counters["Gets"]+1 || got.Levels["InUse"] != before.Levels["InUse"]+4096 {
		t.Errorf("pools = %+v before and %+v after Get of 4096 bytes, want one more", before, got)
	}
	if n := open["queue"].Counters["Started"]; n < s["FramesSent"] {
		t.Errorf("operations of queues = %d, want at least the %d frames", n, s["FramesSent"])
	}
	if _, ok := open["msg"].Counters["CreditStalls"]; !ok {
		t.Errorf("counters of msg = %v, want CreditStalls", open["msg"].Counters)
	}

	buf.Free()
	for name, c := range map[string]io.Closer{"conn": conn, "peer": peer, "ln": ln, "sender": sender, "receiver": receiver, "messages": messages, "pool": p, "pd": pd, "dev": dev} {
		if err := c.Close(); err != nil && name != "peer" && name != "receiver" {
			t.Errorf("Close of %s: %v", name, err)
		}
	}
	closed := objects()
	for kind, o := range closed {
		if o.Open != 0 || len(o.Levels) != 0 {
			t.Errorf("closed objects of kind %s = %+v, want no open object and no level", kind, o)
		}
	}
	if got := closed["stream"].Counters; got["BytesSent"] != 100 || got["BytesReceived"] != 100 {
		t.Errorf("counters of closed streams = %v, want those of open ones, %v", got, s)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Pool.Close: %v", err)
	}
	if again := objects()["pool"].Counters; !maps.Equal(again, closed["pool"].Counters) {
		t.Errorf("counters of closed pools = %v after a second Close, want %v", again, closed["pool"].Counters)
	}
	if got := closed["pool"].Counters["Gets"]; got < open["pool"].Counters["Gets"] {
		t.Errorf("Gets of closed pools = %d, want at least %d", got, open["pool"].Counters["Gets"])
	}

	metrics.Publish("objects", host)
	var published struct{ Objects map[string]metrics.Objects }
	if err := json.Unmarshal([]byte(expvar.Get("objects").String()), &published); err != nil {
		t.Fatalf("json.Unmarshal of %s: %v", expvar.Get("objects"), err)
	}
	if n := published.Objects["stream"].Counters["BytesSent"]; n != 100 {
		t.Errorf("published bytes of streams = %d, want 100", n)
	}
}
