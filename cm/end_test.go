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

// fakeConn is an established connection on fake kernels, with a receive posted.
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

// TestThePeersEndIsEOF: whether the flush or the event comes first to who waits.
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
			t.Fatalf("WaitRecv: %v", err)
		}
		if _, err := conn.WaitRecv(soonCtx(t)); err != io.EOF { // nothing is posted any more
			t.Fatalf("WaitRecv afterwards: %v", err)
		}
		var gone *DisconnectedError
		if err := conn.Send(soonCtx(t)); !errors.As(err, &gone) || gone.Local || !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("Send: %v", err)
		}
		conn.Close()
		if end, err := conn.Wait(soonCtx(t)); err != nil || end != (End{Event: EventDisconnected}) {
			t.Fatalf("%+v, %v", end, err)
		}
	}
}

// TestOurEnd: who has disconnected himself is told so, before the peer's answer and
// after it, and after Close.
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
			t.Errorf("%s: %v", when, err)
		}
	}
	check("before the answer")
	k.queue(conn.ID().kid, EventDisconnected, 0)
	want := End{Event: EventDisconnected, Local: true}
	if end := <-ended; end != want || !strings.Contains(end.String(), "this side") {
		t.Errorf("%v", end)
	}
	check("after it")
	conn.Close()
	if end, err := conn.Wait(soonCtx(t)); err != nil || end != want {
		t.Errorf("after Close: %v, %v", end, err)
	}
}

// TestCloseEndsWithoutAnEnd: what nobody has seen end is not said to have ended.
func TestCloseEndsWithoutAnEnd(t *testing.T) {
	conn, _ := fakeConn(t)
	conn.Close()
	if end, err := conn.Wait(soonCtx(t)); !errors.Is(err, net.ErrClosed) || end != (End{}) {
		t.Errorf("%v, %v", end, err)
	}
	if _, err := conn.WaitRecv(soonCtx(t)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WaitRecv: %v", err)
	}
}

// TestTheFirstFailureIsKept: what comes after is a mere flush, whichever call meets
// it, also when the peer has disconnected since.
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
				t.Errorf("%s, %s: %v", when, name, err)
			}
		}
	}
	check("while it stands")
	k.queue(conn.ID().kid, EventDisconnected, 0)
	if _, err := conn.Wait(soonCtx(t)); err != nil {
		t.Fatalf("conn.Wait: %v", err)
	}
	check("when the peer has left")
}

// TestExplainKeepsTheFirstFailure: for those who poll themselves.
func TestExplainKeepsTheFirstFailure(t *testing.T) {
	conn, _ := fakeConn(t)
	flush, first := &verbs.WCError{Status: verbs.WCWRFlushErr}, &verbs.WCError{Status: verbs.WCRemAccessErr}
	if err := conn.Explain(nil); err != nil {
		t.Errorf("conn.Explain: %v", err)
	}
	if err := conn.Explain(flush); !errors.Is(err, flush) {
		t.Errorf("a flush without a cause: %v", err)
	}
	if err := conn.Explain(first); !errors.Is(err, first) {
		t.Errorf("conn.Explain: %v", err)
	}
	var broken *BrokenError
	if err := conn.Explain(flush); !errors.As(err, &broken) || broken.Op != "work request" || !errors.Is(err, first) {
		t.Errorf("a flush: %v", err)
	}
	if err := conn.Send(soonCtx(t)); !errors.Is(err, first) {
		t.Errorf("Send: %v", err)
	}
}

// TestAFailedQPIsNoEOF: messages were lost. It does not matter whether the flush or
// the peer's disconnect is seen first.
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
				t.Errorf("late %v: %v", late, err)
			}
		}
		// The cause, when it is found in another CQ.
		cause := &verbs.WCError{Status: verbs.WCRemOpErr}
		conn.ended(opSend, cause)
		if _, err := conn.WaitRecv(soonCtx(t)); !errors.Is(err, cause) {
			t.Errorf("late %v: %v is not %v", late, err, cause)
		}
	}
}

// TestDisconnectKeepsToItsContext: though the kernel holds the command, as iWARP
// does.
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
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Disconnect waits for the kernel")
	}
	close(free)
	conn.Close()
}

// TestClosedBeforeBroken: after Close an operation says that, whatever broke the
// connection before. Explain goes on to explain.
func TestClosedBeforeBroken(t *testing.T) {
	first := &verbs.WCError{Status: verbs.WCRemAccessErr}
	for name, before := range map[string]func(*Conn, *fakeKernel){
		"nothing":   func(*Conn, *fakeKernel) {},
		"a failure": func(c *Conn, _ *fakeKernel) { failQP(c); c.ended(opWrite, first) },
		"a cancellation": func(c *Conn, _ *fakeKernel) {
			c.ep.giveUp(&BrokenError{Op: opSend, Err: context.Canceled, Cancelled: true})
		},
		"the peer's end": func(c *Conn, k *fakeKernel) { k.queue(c.ID().kid, EventDisconnected, 0); c.Wait(soonCtx(t)) },
		"the removal":    func(c *Conn, k *fakeKernel) { k.queue(c.ID().kid, EventDeviceRemoval, 0); c.Wait(soonCtx(t)) },
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
		if name == "the removal" {
			for op, err := range operations() {
				var removed *verbs.DeviceRemovedError
				if !errors.As(err, &removed) || errors.Is(err, net.ErrClosed) {
					t.Errorf("%s after %s, before Close: %v", op, name, err)
				}
			}
		}
		conn.Close()
		for op, err := range operations() {
			var oe *OpError
			if !errors.As(err, &oe) || oe.Err != net.ErrClosed {
				t.Errorf("%s after %s and Close: %v", op, name, err)
			}
		}
		if flush := (&verbs.WCError{Status: verbs.WCWRFlushErr}); name == "a failure" && !errors.Is(conn.Explain(flush), first) {
			t.Errorf("after Close a flush is explained by %v", conn.Explain(flush))
		}
	}
}
