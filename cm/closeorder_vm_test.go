// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"io"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// closeOrders calls fn with every skip-th order of n objects.
func closeOrders(n, skip int, fn func(order []int)) {
	count := 0
	var rec func(order, rest []int)
	rec = func(order, rest []int) {
		if len(rest) == 0 {
			if count++; count%skip == 0 {
				fn(order)
			}
		}
		for i, o := range rest {
			left := append(append([]int{}, rest[:i]...), rest[i+1:]...)
			rec(append(order[:len(order):len(order)], o), left)
		}
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	rec(nil, all)
}

// ownConn connects with a PD, CQ, QP and memory that the test has created. It posts a receive
// and provokes an answer, which may come at any time.
func ownConn(t *testing.T, ctx context.Context, d *cm.Dialer, address string) []io.Closer {
	t.Helper()
	r := ok(d.Resolve(ctx, "tcp", address))(t)
	pd := ok(r.Device().AllocPD())(t)
	cq := ok(r.Device().CreateCQ(verbs.CQConfig{Entries: 16}))(t)
	qp := ok(pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq}))(t)
	mr := ok(pd.Alloc(4096, verbs.LocalWrite))(t)
	if err := r.Init(qp); err != nil {
		t.Fatalf("Init: %v", err)
	}
	if err := r.PostRecv(1, mr.SGE()); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	conn := ok(r.Connect(ctx, nil, nil))(t)
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, InlineData: []byte("hello")}}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	return []io.Closer{conn, pd, cq, qp, mr}
}

// defaultConn connects like ownConn, but with the default objects of the connection. It uses
// memory of the test and of the connection.
func defaultConn(t *testing.T, ctx context.Context, d *cm.Dialer, address string) []io.Closer {
	t.Helper()
	conn := ok(d.Dial(ctx, "tcp", address))(t)
	own := ok(conn.PD().Alloc(4096, verbs.LocalWrite))(t)
	buf := ok(conn.Alloc(4096, verbs.LocalWrite))(t)
	for _, mr := range []*verbs.MR{own, buf} {
		if err := conn.PostRecv(1, mr.SGE()); err != nil {
			t.Fatalf("conn.PostRecv: %v", err)
		}
		if err := conn.Send(ctx, buf.Slice(0, 5)); err != nil {
			t.Fatalf("conn.Send: %v", err)
		}
	}
	return []io.Closer{conn, own, buf, conn.QP(), conn.PD()}
}

// ok returns a function that returns v, or fails the test if err is not nil.
func ok[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%T: unexpected error: %v", v, err)
		}
		return v
	}
}

// testCloseOrders closes the objects of a connection in each skip-th order, while the peer's
// answer arrives. Each Close succeeds. testCloseOrders calls after when all objects are
// closed.
func testCloseOrders(t *testing.T, d *cm.Dialer, address string, skip int, after func(order []int)) {
	ctx := within(t, time.Minute)
	for name, connect := range map[string]func(*testing.T, context.Context, *cm.Dialer, string) []io.Closer{
		"own objects":     ownConn,
		"default objects": defaultConn,
	} {
		t.Run(name, func(t *testing.T) {
			closeOrders(5, skip, func(order []int) {
				all := connect(t, ctx, d, address)
				for _, i := range order {
					if err := all[i].Close(); err != nil {
						t.Errorf("order %v: Close of %T = %v, want nil", order, all[i], err)
					}
				}
				after(order)
			})
		})
	}
}

// TestVMCloseOrders runs TestCloseOrders on a real kernel.
func TestVMCloseOrders(t *testing.T) {
	ln, d := ends(t)
	go echo(ln)
	testCloseOrders(t, d, ln.Addr().String(), 7, func([]int) {})
}
