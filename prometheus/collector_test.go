// SPDX-License-Identifier: Apache-2.0

//go:build linux

package prometheus_test

import (
	"context"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/pool"
	"purerdma/prometheus"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// counted is a kernel whose devices have counters.
type counted struct{ *cmtest.Kernel }

func (counted) PortCounters(uverbs.DeviceInfo, int) (map[string]uint64, error) {
	return map[string]uint64{"rnr_nak": 7}, nil
}

// TestCollector registers a collector with a pedantic registry, which checks each metric against its
// description, and compares some metrics with the operations of a connection.
func TestCollector(t *testing.T) {
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
			peer, err = req.Accept(ctx, nil, nil)
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
	if _, err := conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRead, SGList: []verbs.SGE{buf.Slice(0, 100)}}}); err != nil {
		t.Fatalf("QP.PostSend: %v", err)
	}

	p, err := pool.New(conn.PD(), pool.Config{})
	if err != nil {
		t.Fatalf("pool.New: %v", err)
	}
	defer p.Close()
	b, err := p.Get(ctx, 4096)
	if err != nil {
		t.Fatalf("Pool.Get: %v", err)
	}
	defer b.Free()

	r := client.NewPedanticRegistry()
	r.MustRegister(prometheus.NewCollector(host))
	families, err := r.Gather()
	if err != nil {
		t.Fatalf("Registry.Gather: %v", err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"rdma_send_requests_total rxe1 read":     1,
		"rdma_send_bytes_total rxe1 read":        100,
		"rdma_qps rxe1":                          1,
		"rdma_port_counter_total rnr_nak rxe1 1": 7,
		"rdma_connections_open":                  2,
		"rdma_dials_total established":           1,
		"rdma_accepts_total established":         1,
		"rdma_accepts_total refused":             0,
		"rdma_objects listener":                  1,
		"rdma_objects pool":                      1,
		"rdma_object_counter_total gets pool":    1,
		"rdma_object_level pool in_use":          4096,
	} {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("metric %s = %v, %v, want %v, true", name, n, ok, want)
		}
	}
}
