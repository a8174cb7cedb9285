// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// fakeConn returns an established connection on fake kernels, with a receive posted.
func fakeConn(t *testing.T) (*Conn, *fakeKernel) {
	t.Helper()
	ep, k := fakeEndpoint(t, StateRouteResolved)
	k.accepts = true
	r := &Resolved{pendingConn: pendingConn{ep: ep}}
	conn, err := r.Connect(context.Background(), nil, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	attr := verbs.QPAttr{State: verbs.QPInit, Port: 1}
	if err := conn.qp.Modify(&attr, verbs.QPAttrState|verbs.QPAttrPort|verbs.QPAttrPKeyIndex|verbs.QPAttrAccess); err != nil {
		t.Fatalf("conn.qp.Modify: %v", err)
	}
	if err := conn.PostRecv(1); err != nil {
		t.Fatalf("conn.PostRecv: %v", err)
	}
	return conn, k
}

func failQP(c *Conn) { c.ep.ch.host.Kernel.(*uverbstest.Kernel).FailQP(c.qp.Num()) }

func soonCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestThePeersEndIsEOF checks that WaitRecv returns io.EOF after the peer's disconnect. The
// waiting goroutine may get the flush or the event first.
func TestThePeersEndIsEOF(t *testing.T) {
	for range 50 {
		conn, k := fakeConn(t)
		waited := make(chan error, 1)
		go func() {
			_, err := conn.WaitRecv(soonCtx(t))
			waited <- err
		}()
		k.queue(conn.ID().kid, EventDisconnected, 0)
		if err := <-waited; err != io.EOF {
			t.Fatalf("WaitRecv() = %v, want io.EOF", err)
		}
		if _, err := conn.WaitRecv(soonCtx(t)); err != io.EOF { // no receive is posted any more
			t.Fatalf("second WaitRecv() = %v, want io.EOF", err)
		}
		var gone *DisconnectedError
		if err := conn.Send(soonCtx(t)); !errors.As(err, &gone) || gone.Local || !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("Send() = %v, want a DisconnectedError of the peer with ECONNRESET", err)
		}
		conn.Close()
		if end, err := conn.Wait(soonCtx(t)); err != nil || end != (End{Event: EventDisconnected}) {
			t.Fatalf("Wait() = %+v, %v, want the peer's DISCONNECTED", end, err)
		}
	}
}

// TestOurEnd checks the errors after a local disconnect. They report the local side before and
// after the peer's answer. Wait reports it after Close.
func TestOurEnd(t *testing.T) {
	conn, k := fakeConn(t)
	ended := make(chan End, 1)
	go func() {
		end, err := conn.Disconnect(soonCtx(t))
		if err != nil {
			t.Errorf("conn.Disconnect: %v", err)
		}
		ended <- end
	}()
	check := func(when string) {
		t.Helper()
		var gone *DisconnectedError
		if _, err := conn.WaitRecv(soonCtx(t)); !errors.As(err, &gone) || !gone.Local || !errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("WaitRecv %s = %v, want a local DisconnectedError", when, err)
		}
	}
	check("before the peer's answer")
	k.queue(conn.ID().kid, EventDisconnected, 0)
	want := End{Event: EventDisconnected, Local: true}
	if end := <-ended; end != want || !strings.Contains(end.String(), "this side") {
		t.Errorf("Disconnect() = %v, want %v", end, want)
	}
	check("after the peer's answer")
	conn.Close()
	if end, err := conn.Wait(soonCtx(t)); err != nil || end != want {
		t.Errorf("Wait() after Close = %v, %v, want %v", end, err, want)
	}
}

// TestCloseEndsWithoutAnEnd checks that Wait returns no End if the program closed the
// connection before an end was seen.
func TestCloseEndsWithoutAnEnd(t *testing.T) {
	conn, _ := fakeConn(t)
	conn.Close()
	if end, err := conn.Wait(soonCtx(t)); !errors.Is(err, net.ErrClosed) || end != (End{}) {
		t.Errorf("Wait() after Close = %v, %v, want no End and net.ErrClosed", end, err)
	}
	if _, err := conn.WaitRecv(soonCtx(t)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WaitRecv() after Close = %v, want net.ErrClosed", err)
	}
}

// TestTheFirstFailureIsKept checks that every call returns the first failure instead of a
// later flush. This is also true after the peer has disconnected.
func TestTheFirstFailureIsKept(t *testing.T) {
	conn, k := fakeConn(t)
	first := &verbs.WCError{Status: verbs.WCRemAccessErr, QPNum: conn.qp.Num()}
	if err := conn.ended(opWrite, first); !errors.Is(err, first) {
		t.Fatalf("conn.ended: %v", err)
	}
	conn.ended(opSend, &verbs.WCError{Status: verbs.WCRetryExcErr})
	failQP(conn)
	check := func(when string) {
		t.Helper()
		_, received := conn.WaitRecv(soonCtx(t))
		for name, err := range map[string]error{"WaitRecv": received, "Send": conn.Send(soonCtx(t)), "Probe": conn.Probe(soonCtx(t))} {
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Op != "write" || !errors.Is(err, first) || !strings.Contains(err.Error(), "remote access error") {
				t.Errorf("%s %s = %v, want a BrokenError of the write", name, when, err)
			}
		}
	}
	check("on the connection")
	k.queue(conn.ID().kid, EventDisconnected, 0)
	if _, err := conn.Wait(soonCtx(t)); err != nil {
		t.Fatalf("conn.Wait: %v", err)
	}
	check("after the peer's disconnect")
}

// TestExplainKeepsTheFirstFailure checks Explain for programs that poll their completions
// themselves.
func TestExplainKeepsTheFirstFailure(t *testing.T) {
	conn, _ := fakeConn(t)
	flush, first := &verbs.WCError{Status: verbs.WCWRFlushErr}, &verbs.WCError{Status: verbs.WCRemAccessErr}
	if err := conn.Explain(nil); err != nil {
		t.Errorf("Explain(nil) = %v, want nil", err)
	}
	if err := conn.Explain(flush); !errors.Is(err, flush) {
		t.Errorf("Explain(flush) without a cause = %v, want the flush", err)
	}
	if err := conn.Explain(first); !errors.Is(err, first) {
		t.Errorf("Explain(first failure) = %v, want that failure", err)
	}
	var broken *BrokenError
	if err := conn.Explain(flush); !errors.As(err, &broken) || broken.Op != "work request" || !errors.Is(err, first) {
		t.Errorf("Explain(flush) = %v, want a BrokenError of the first failure", err)
	}
	if err := conn.Send(soonCtx(t)); !errors.Is(err, first) {
		t.Errorf("Send() = %v, want the first failure", err)
	}
}

// TestAFailedQPIsNoEOF checks that WaitRecv on a failed QP returns no io.EOF, because messages
// were lost. The result does not depend on whether the flush or the peer's disconnect comes
// first.
func TestAFailedQPIsNoEOF(t *testing.T) {
	for _, late := range []bool{false, true} {
		conn, k := fakeConn(t)
		failQP(conn)
		if late {
			k.queue(conn.ID().kid, EventDisconnected, 0)
			if _, err := conn.Wait(soonCtx(t)); err != nil {
				t.Fatalf("conn.Wait: %v", err)
			}
		}
		for range 2 {
			var broken *BrokenError
			if _, err := conn.WaitRecv(soonCtx(t)); !errors.As(err, &broken) || broken.Op != "" {
				t.Errorf("WaitRecv() with the disconnect first: %v = %v, want a BrokenError without an operation", late, err)
			}
		}
		// The cause is found later in another CQ.
		cause := &verbs.WCError{Status: verbs.WCRemOpErr}
		conn.ended(opSend, cause)
		if _, err := conn.WaitRecv(soonCtx(t)); !errors.Is(err, cause) {
			t.Errorf("WaitRecv() with the disconnect first: %v = %v, want %v", late, err, cause)
		}
	}
}

// TestRequestsFailBeforeTheRemoval checks that failures and flushes name the removal of the device, although the
// connection manager has not reported it.
func TestRequestsFailBeforeTheRemoval(t *testing.T) {
	for _, status := range []verbs.WCStatus{verbs.WCLocProtErr, verbs.WCWRFlushErr} {
		conn, _ := fakeConn(t)
		conn.ep.ch.host.Kernel.(*uverbstest.Kernel).Remove(conn.ID().Device().Name())
		err := conn.Explain(&verbs.WCError{Status: status, QPNum: conn.qp.Num()})
		removed, ok := errors.AsType[*verbs.DeviceRemovedError](err)
		if !ok || removed.Device != conn.ID().Device().Name() {
			t.Errorf("Explain(%v) = %v, want the removal of %s", status, err, conn.ID().Device().Name())
		}
	}
}

// TestDisconnectKeepsToItsContext checks that Disconnect returns at the end of its context
// while the kernel still runs the command, as on iWARP.
func TestDisconnectKeepsToItsContext(t *testing.T) {
	k := newFakeKernel()
	k.accepts = true
	free := make(chan struct{})
	h := &hooked{fakeKernel: k, write: func(b []byte) {
		if binary.NativeEndian.Uint32(b) == abi.RDMA_USER_CM_CMD_DISCONNECT {
			<-free
		}
	}}
	host := fakeHost()
	ch := newEventChannel(ucma.New(h), host)
	id := newFakeID(t, ch)
	var err error
	if id.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	id.state = StateRouteResolved
	ep := newEndpoint(ch, id)
	go ep.pump()
	conn, err := (&Resolved{pendingConn: pendingConn{ep: ep}}).Connect(context.Background(), nil, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Disconnect(ctx)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Disconnect() = %v, want DeadlineExceeded", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Disconnect did not return within 5 seconds")
	}
	close(free)
	conn.Close()
}

// TestClosedBeforeBroken checks that operations after Close return net.ErrClosed for every
// earlier cause of the connection's end. Explain still returns the cause.
func TestClosedBeforeBroken(t *testing.T) {
	first := &verbs.WCError{Status: verbs.WCRemAccessErr}
	for name, before := range map[string]func(*Conn, *fakeKernel){
		"nothing": func(*Conn, *fakeKernel) {},
		"failure": func(c *Conn, _ *fakeKernel) { failQP(c); c.ended(opWrite, first) },
		"cancellation": func(c *Conn, _ *fakeKernel) {
			c.ep.giveUp(&BrokenError{Op: opSend, Err: context.Canceled, Cancelled: true})
		},
		"peer's disconnect": func(c *Conn, k *fakeKernel) { k.queue(c.ID().kid, EventDisconnected, 0); c.Wait(soonCtx(t)) },
		"removal":           func(c *Conn, k *fakeKernel) { k.queue(c.ID().kid, EventDeviceRemoval, 0); c.Wait(soonCtx(t)) },
	} {
		conn, k := fakeConn(t)
		before(conn, k)
		operations := func() map[string]error {
			_, received := conn.WaitRecv(soonCtx(t))
			return map[string]error{
				"Send": conn.Send(soonCtx(t)), "Probe": conn.Probe(soonCtx(t)), "PostRecv": conn.PostRecv(2), "WaitRecv": received,
				"Read":  conn.Read(soonCtx(t), verbs.SGE{}, verbs.RemoteMemory{}),
				"Write": conn.Write(soonCtx(t), verbs.SGE{}, verbs.RemoteMemory{}),
			}
		}
		if name == "removal" {
			for op, err := range operations() {
				var removed *verbs.DeviceRemovedError
				if !errors.As(err, &removed) || errors.Is(err, net.ErrClosed) {
					t.Errorf("%s after %s, before Close = %v, want a DeviceRemovedError", op, name, err)
				}
			}
		}
		conn.Close()
		for op, err := range operations() {
			var oe *OpError
			if !errors.As(err, &oe) || oe.Err != net.ErrClosed {
				t.Errorf("%s after %s and Close = %v, want net.ErrClosed", op, name, err)
			}
		}
		if flush := (&verbs.WCError{Status: verbs.WCWRFlushErr}); name == "failure" && !errors.Is(conn.Explain(flush), first) {
			t.Errorf("Explain(flush) after Close = %v, want the first failure", conn.Explain(flush))
		}
	}
}
