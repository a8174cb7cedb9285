// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/verbs"
)

// TestCloseOrders closes a connection, its QP, CQ, PD and memory in every order. Each Close
// succeeds, the peer's answer damages no memory, and nothing is left open.
func TestCloseOrders(t *testing.T) {
	for name, machine := range fakeMachines {
		t.Run(name, func(t *testing.T) {
			n := newFakeNet(t, machine(), cm.ListenConfig{})
			go echo(n.ln)
			testCloseOrders(t, n.d, "10.0.0.1:7", 1, func([]int) {})
			n.close(t)
		})
	}
}

// TestBuffersOfAConnection checks that the memory of Alloc stays registered until the Close of
// its connection, and that the program may close it before.
func TestBuffersOfAConnection(t *testing.T) {
	fake := newFakeNet(t, fakeMachines["rxe"](), cm.ListenConfig{})
	go echo(fake.ln)
	ctx := within(t, 10*time.Second)
	r := ok(fake.d.Resolve(ctx, "tcp", "10.0.0.1:7"))(t)
	buf := ok(r.Alloc(4096, verbs.LocalWrite))(t)
	conn := ok(r.Connect(ctx, nil, nil))(t)
	if r.Close(); len(buf.Bytes()) != 4096 || buf.PD() != conn.PD() {
		t.Errorf("%d bytes on PD %p after Connect, want 4096 on %p", len(buf.Bytes()), buf.PD(), conn.PD())
	}
	for range 100 {
		if err := ok(conn.Alloc(64, verbs.LocalWrite))(t).Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	if n := cm.Buffers(conn.ID()); n > 8 {
		t.Errorf("Buffers() = %d after 100 closed ones, want at most 8", n)
	}
	var refuse atomic.Bool
	refuse.Store(true)
	fake.k.OnCommand(func(c cmtest.Command) error {
		if refuse.Load() && c.Device == "rxe1" && c.Name == "UVERBS_METHOD_QP_DESTROY" {
			return syscall.ENOMEM
		}
		return nil
	})
	if err := conn.Close(); !errors.Is(err, syscall.ENOMEM) || buf.Bytes() == nil {
		t.Errorf("Close = %v, memory freed %v, want ENOMEM, false, because the QP still exists", err, buf.Bytes() == nil)
	}
	refuse.Store(false)
	if err := conn.Close(); err != nil || buf.Bytes() != nil {
		t.Errorf("Close = %v, memory freed %v, want nil, true", err, buf.Bytes() == nil)
	}
	if _, err := conn.Alloc(64, verbs.LocalWrite); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Alloc after Close = %v, want net.ErrClosed", err)
	}
	fake.close(t)
}

// TestBuffersOfALateRequest checks that the HandshakeTimeout does not free memory that the
// program may be filling. Each way to end the request frees the memory.
func TestBuffersOfALateRequest(t *testing.T) {
	n := newFakeNet(t, fakeMachines["rxe"](), cm.ListenConfig{HandshakeTimeout: 300 * time.Millisecond})
	for name, end := range map[string]func(ctx context.Context, req *cm.Request) error{
		"Accept": func(ctx context.Context, req *cm.Request) error {
			_, err := req.Accept(ctx, nil, nil)
			return err
		},
		"Reject": func(_ context.Context, req *cm.Request) error { return req.Reject(nil) },
		"Close":  func(_ context.Context, req *cm.Request) error { return req.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, 10*time.Second)
			refused := make(chan error, 1)
			go func() {
				_, err := n.d.Dial(ctx, "tcp", "10.0.0.1:7")
				refused <- err
			}()
			req := ok(n.ln.Accept(ctx))(t)
			buf := ok(req.Alloc(4096, verbs.LocalWrite))(t)
			if err := req.PostRecv(1, buf.SGE()); err != nil {
				t.Fatalf("PostRecv: %v", err)
			}
			if err := <-refused; !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("Dial = %v, want ECONNREFUSED", err)
			}
			buf.Bytes()[0] = 1 // faults if the memory has been unmapped
			if err := end(ctx, req); name != "Close" && !errors.Is(err, os.ErrDeadlineExceeded) || name == "Close" && err != nil {
				t.Errorf("%s = %v, want nil of Close, otherwise a passed deadline", name, err)
			}
			if buf.Bytes() != nil {
				t.Errorf("Bytes() after %s != nil, want freed memory", name)
			}
		})
	}
	n.close(t)
}

// TestCloseDuringExpiry checks that the program's Close frees the memory of a request that is
// being refused at its deadline. The kernel destroys the QP only after the refusal has reached
// its own Close.
func TestCloseDuringExpiry(t *testing.T) {
	n := newFakeNet(t, fakeMachines["rxe"](), cm.ListenConfig{HandshakeTimeout: 300 * time.Millisecond})
	refusing, closing := make(chan struct{}), make(chan struct{})
	var rejects, destroys atomic.Int32
	n.k.OnCommand(func(c cmtest.Command) error {
		switch {
		case c.Name == "REJECT" && rejects.Add(1) == 1:
			close(refusing)
			<-closing
		case c.Device == "rxe0" && c.Name == "UVERBS_METHOD_QP_DESTROY" && destroys.Add(1) == 1:
			for !calls("expireAt.func1", "closeWithin") {
				runtime.Gosched()
			}
		}
		return nil
	})
	ctx := within(t, 10*time.Second)
	refused := make(chan error, 1)
	go func() {
		_, err := n.d.Dial(ctx, "tcp", "10.0.0.1:7")
		refused <- err
	}()
	req := ok(n.ln.Accept(ctx))(t)
	buf := ok(req.Alloc(4096, verbs.LocalWrite))(t)
	if err := req.PostRecv(1, buf.SGE()); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	<-refusing
	closed := make(chan error, 1)
	go func() { closed <- req.Close() }()
	for {
		if _, err := req.Alloc(4096, verbs.LocalWrite); errors.Is(err, net.ErrClosed) {
			break
		}
	}
	close(closing)
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
	<-refused
	n.close(t)
	if buf.Bytes() != nil {
		t.Error("the memory is there after Close")
	}
}

// calls reports whether a goroutine is in both functions.
func calls(names ...string) bool {
	stacks := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(g, name) }) {
			return true
		}
	}
	return false
}
