// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/oob"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

const everything = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic

// net is a kernel with two devices, and a Host that uses it.
type net struct {
	t    testing.TB
	k    *inprocess.Kernel
	host *verbs.Host
	cq   *mlx5dv.CQOptions // options of completion queues
}

func newNet(t testing.TB, trace func(connectx.Record)) *net {
	k := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t), Trace: trace}, "mlx5_0", "mlx5_1")
	return &net{t: t, k: k, host: &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}}
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func closer(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// end is one side of a connection.
type end struct {
	t   testing.TB
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	gid verbs.GID
}

// end opens a device and creates a QP on it. The CQs in cfg may be nil.
func (n *net) end(name string, cfg verbs.QPConfig) *end {
	t := n.t
	t.Helper()
	e := &end{t: t}
	var err error
	if e.dev, err = n.host.Open(name); err != nil {
		t.Fatalf("n.host.Open(name): %v", err)
	}
	closer(t, e.dev)
	if e.pd, err = e.dev.AllocPD(); err != nil {
		t.Fatalf("e.dev.AllocPD(): %v", err)
	}
	closer(t, e.pd)
	d, err := mlx5dv.From(e.dev)
	if err != nil {
		t.Fatalf("mlx5dv.From(e.dev): %v", err)
	}
	cq, err := d.CreateCQ(verbs.CQConfig{Entries: 4096}, n.cq)
	if err != nil {
		t.Fatalf("d.CreateCQ: %v", err)
	}
	closer(t, cq)
	e.cq = cq.CQ
	if e.mr, err = e.pd.Alloc(1<<20, everything); err != nil {
		t.Fatalf("e.pd.Alloc(1<<20, everything): %v", err)
	}
	closer(t, e.mr)
	cfg.SendCQ, cfg.RecvCQ = e.cq, e.cq
	if e.qp, err = e.pd.CreateQP(cfg); err != nil {
		t.Fatalf("e.pd.CreateQP(cfg): %v", err)
	}
	closer(t, e.qp)
	gid, err := e.dev.GIDFor(1, netip.Addr{})
	if err != nil {
		t.Fatalf("e.dev.GIDFor: %v", err)
	}
	e.gid = gid.GID
	return e
}

// retries has the retry attributes of a QP.
type retries struct{ timeout, count, rnr, rnrTimer uint8 }

// connect moves the QP to RTS.
func (e *end) connect(peer *end, r retries) {
	e.t.Helper()
	path := oob.Path{Access: everything, RdAtomic: 4, MinRNRTimer: verbs.DecodeRNRTimer(r.rnrTimer)}
	if err := path.Init(e.qp); err != nil {
		e.t.Fatalf("path.Init: %v", err)
	}
	if err := path.ToRTR(e.qp, oob.Address{QPN: peer.qp.Num(), PSN: 7, GID: peer.gid}); err != nil {
		e.t.Fatalf("path.ToRTR: %v", err)
	}
	if err := e.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS, Timeout: r.timeout, RetryCount: r.count, RNRRetryCount: r.rnr, SQPSN: 7, MaxRdAtomic: 4},
		verbs.QPAttrState|verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrSQPSN|verbs.QPAttrMaxRdAtomic); err != nil {
		e.t.Fatalf("Modify to RTS: %v", err)
	}
}

// pair returns two connected ends.
func (n *net) pair(cap verbs.QPCap, r retries) (*end, *end) {
	n.t.Helper()
	a, b := n.end("mlx5_0", verbs.QPConfig{Cap: cap}), n.end("mlx5_1", verbs.QPConfig{Cap: cap})
	a.connect(b, r)
	b.connect(a, r)
	return a, b
}

// events returns the future asynchronous events of the end's device.
func (e *end) events() *verbs.AsyncEvents {
	e.t.Helper()
	q, err := e.dev.AsyncEvents()
	if err != nil {
		e.t.Fatalf("AsyncEvents: %v", err)
	}
	closer(e.t, q)
	return q
}

// wait returns n completions.
func (e *end) wait(n int) []verbs.WC {
	e.t.Helper()
	wcs := make([]verbs.WC, n)
	for got := 0; got < n; {
		k, err := e.cq.Wait(deadline(e.t), wcs[got:])
		if err != nil {
			e.t.Fatalf("Wait after %d of %d completions: %v", got, n, err)
		}
		got += k
	}
	return wcs
}

func (e *end) send(wrs ...verbs.SendWR) {
	e.t.Helper()
	if n, err := e.qp.PostSend(wrs); n != len(wrs) || err != nil {
		e.t.Fatalf("PostSend = %d, %v, want %d", n, err, len(wrs))
	}
}

func (e *end) recv(wrs ...verbs.RecvWR) {
	e.t.Helper()
	if n, err := e.qp.PostRecv(wrs); n != len(wrs) || err != nil {
		e.t.Fatalf("PostRecv = %d, %v, want %d", n, err, len(wrs))
	}
}
