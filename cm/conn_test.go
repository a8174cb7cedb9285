// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// TestSendKeepsItsMemoryWhenItCannotWait makes waiting on the CQ fail. Send returns that
// error, but only after the flush.
func TestSendKeepsItsMemoryWhenItCannotWait(t *testing.T) {
	for name, times := range map[string]int32{"once": 1, "always": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			l := linkedConn(t)
			l.faults.arm.Store(times)
			if err := l.soonSends(t, context.Background()); !errors.Is(err, syscall.ENOMEM) {
				t.Errorf("Send() = %v, want %v", err, syscall.ENOMEM)
			}
			l.takenBack(t)
		})
	}
}

// TestCancelledSendWhoseFlushFails makes the kernel refuse to move the QP to the error state.
// Send tries again, and finally closes the QP.
func TestCancelledSendWhoseFlushFails(t *testing.T) {
	for name, times := range map[string]int32{"once": 1, "always": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			l := linkedConn(t)
			var refuse atomic.Int32
			l.faults.request = func(req *uverbs.Request) error {
				if isWrite(req, abi.IB_USER_VERBS_CMD_MODIFY_QP) && refuse.Add(-1) >= 0 {
					return syscall.ENOMEM
				}
				return nil
			}
			refuse.Store(times)
			if err := l.cancelledSend(t, withTimeout); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Send() = %v, want %v", err, context.DeadlineExceeded)
			}
			l.takenBack(t)
		})
	}
}

// TestCancelledSendWhoseDestroyFails makes the flush and the first three tries to destroy the
// QP fail.
func TestCancelledSendWhoseDestroyFails(t *testing.T) {
	l := linkedConn(t)
	destroys := 0
	l.faults.request = func(req *uverbs.Request) error {
		switch {
		case isWrite(req, abi.IB_USER_VERBS_CMD_MODIFY_QP):
			return syscall.ENOMEM
		case req.Object == abi.UVERBS_OBJECT_QP && req.Method == abi.UVERBS_METHOD_QP_DESTROY:
			if destroys++; destroys <= 3 {
				return syscall.ENOMEM
			}
		}
		return nil
	}
	if err := l.cancelledSend(t, withTimeout); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send() = %v, want %v", err, context.DeadlineExceeded)
	}
	if verbsInternal.Closed(l.qp).Err() == nil {
		t.Error("the QP still exists after Send, and the device may use the memory")
	}
	l.takenBack(t)
}

// TestOthersContextsHaveNotEnded checks that the end of one caller's context is no timeout for
// other callers.
func TestOthersContextsHaveNotEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(time.Duration) (context.Context, context.CancelFunc)
		want error
	}{
		"deadline":  {withTimeout, context.DeadlineExceeded},
		"cancelled": {withCancel, context.Canceled},
		"cause":     {withCause, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			l := linkedConn(t)
			other := make(chan error, 1)
			go func() { _, err := l.WaitRecv(context.Background()); other <- err }()
			if own := l.cancelledSend(t, tc.end); !errors.Is(own, tc.want) {
				t.Errorf("Send() = %v, want %v", own, tc.want)
			} else if broken := (*BrokenError)(nil); !errors.As(own, &broken) || !broken.Cancelled {
				t.Errorf("Send() = %v, want a *BrokenError, because the send was posted", own)
			} else if errors.Is(own, io.EOF) {
				t.Errorf("Send() = %v, want no io.EOF", own)
			}
			for op, err := range map[string]error{"WaitRecv": <-other, "Read": l.Read(soonCtx(t), l.buf.SGE(), verbs.RemoteMemory{}), "Err": l.Err()} {
				var broken *BrokenError
				if !errors.As(err, &broken) || broken.Op != "send" || !broken.Cancelled {
					t.Errorf("%s = %v, want a *BrokenError of a cancelled send", op, err)
				}
				for _, ctxErr := range []error{context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, io.EOF} {
					if errors.Is(err, ctxErr) {
						t.Errorf("%s = %v, want an error that is not %v", op, err, ctxErr)
					}
				}
			}
		})
	}
}

// TestDone checks that Done is closed by every event that makes a connection useless, and that
// Err returns the reason.
func TestDone(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(*linked)
		want any
	}{
		"cancelled send":    {func(l *linked) { l.cancelledSend(t, withTimeout) }, new(*BrokenError)},
		"failed write":      {func(l *linked) { l.Write(context.Background(), l.buf.SGE(), wrongKey) }, new(*BrokenError)},
		"error in Explain":  {func(l *linked) { l.Explain(&verbs.WCError{Status: verbs.WCRemAccessErr}) }, new(*BrokenError)},
		"peer's disconnect": {func(l *linked) { l.k.queue(l.ID().kid, EventDisconnected, 0) }, new(*DisconnectedError)},
		"device removal":    {func(l *linked) { l.k.queue(l.ID().kid, EventDeviceRemoval, 0) }, new(*verbs.DeviceRemovedError)},
		"Close":             {func(l *linked) { l.Close() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := linkedConn(t)
			select {
			case <-l.Done():
				t.Fatal("Done is closed on a new connection")
			default:
			}
			if err := l.Err(); err != nil {
				t.Errorf("Err() = %v, want nil", err)
			}
			tc.end(l)
			select {
			case <-l.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("Done is not closed after 10 seconds")
			}
			switch err := l.Err(); {
			case tc.want == nil && !errors.Is(err, net.ErrClosed):
				t.Errorf("Err() = %v, want net.ErrClosed", err)
			case tc.want != nil && !errors.As(err, tc.want):
				t.Errorf("Err() = %v, want a %T", err, tc.want)
			}
		})
	}
}

// TestEventsFail makes GET_EVENT fail in the kernel. The connection becomes useless, and every
// call returns the reason.
func TestEventsFail(t *testing.T) {
	l := linkedConn(t)
	received := make(chan error, 1)
	go func() { _, err := l.WaitRecv(soonCtx(t)); received <- err }()
	l.k.mu.Lock()
	l.k.fail[abi.RDMA_USER_CM_CMD_GET_EVENT] = syscall.EIO
	l.k.mu.Unlock()
	l.k.queue(l.ID().kid, EventAddrChange, 0)
	<-l.Done()
	_, waited := l.Wait(soonCtx(t))
	for op, err := range map[string]error{"WaitRecv": <-received, "Wait": waited, "Err": l.Err(), "Send": l.Send(soonCtx(t), l.buf.Slice(0, 8))} {
		if !errors.Is(err, syscall.EIO) || errors.Is(err, net.ErrClosed) {
			t.Errorf("%s = %v, want %v", op, err, syscall.EIO)
		}
	}
}

// TestFlushWaitsForItsCause flushes a receive because a concurrent Write fails. Both callers
// get that failure in any order of their goroutines.
func TestFlushWaitsForItsCause(t *testing.T) {
	for range 30 {
		l := linkedConn(t)
		if _, err := l.qp.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{l.buf.Slice(64, 64)}}}); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
		received := make(chan error, 1)
		go func() { _, err := l.WaitRecv(soonCtx(t)); received <- err }()
		l.Write(soonCtx(t), l.buf.Slice(0, 8), wrongKey)
		err := <-received
		var broken *BrokenError
		if !errors.As(err, &broken) || broken.Op != "write" {
			t.Fatalf("WaitRecv() = %v, want a *BrokenError of the write", err)
		}
	}
}

// TestPollDuringRead posts and polls while Read runs. Both callers get their own completions
// in any order.
func TestPollDuringRead(t *testing.T) {
	l := linkedConn(t)
	copy(l.theirs.Bytes(), "read me")
	var wcs [4]verbs.WC
	wr := verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: l.theirs.Addr() + 64, RKey: l.theirs.RKey(), SGList: []verbs.SGE{l.buf.Slice(64, 8)}}
	// It is the first completion that Read finds.
	if _, err := l.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	if err := l.Read(soonCtx(t), l.buf.Slice(0, 7), l.theirs.Remote()); err != nil || string(l.buf.Bytes()[:7]) != "read me" {
		t.Fatalf("Read() = %v, %q, want nil, \"read me\"", err, l.buf.Bytes()[:7])
	}
	if n, err := l.qp.SendCQ().Wait(soonCtx(t), wcs[:]); n != 1 || err != nil || wcs[0].ID != 1 {
		t.Fatalf("Wait() = %+v, %v, want the completion of request 1", wcs[:n], err)
	}
	// A poller takes the completion that Read waits for.
	ctx, stop := context.WithCancel(soonCtx(t))
	polled := make(chan error, 1)
	go func() {
		var wcs [4]verbs.WC
		for {
			n, err := l.qp.SendCQ().Poll(wcs[:])
			if n > 0 || err != nil || ctx.Err() != nil {
				if n > 0 {
					err = errors.New("Poll returned a completion of Read")
				}
				polled <- err
				return
			}
		}
	}()
	for range 100 {
		if err := l.Read(soonCtx(t), l.buf.Slice(0, 7), l.theirs.Remote()); err != nil {
			t.Fatalf("Read() = %v, want nil", err)
		}
	}
	stop()
	if err := <-polled; err != nil {
		t.Errorf("Poll during Read: %v", err)
	}
}

// TestExplainAgreesWithSend explains a flush after the peer's disconnect, and a flush without
// an event.
func TestExplainAgreesWithSend(t *testing.T) {
	flush := &verbs.WCError{Status: verbs.WCWRFlushErr}
	l := linkedConn(t)
	l.k.queue(l.ID().kid, EventDisconnected, 0)
	if _, err := l.WaitRecv(soonCtx(t)); err != io.EOF {
		t.Fatalf("WaitRecv() = %v, want %v", err, io.EOF)
	}
	var gone *DisconnectedError
	if err := l.Explain(flush); !errors.As(err, &gone) || gone.Local || !strings.Contains(err.Error(), "the peer has disconnected") {
		t.Errorf("Explain(%v) = %v, want a *DisconnectedError", flush, err)
	}
	l = linkedConn(t)
	failQPOf(l)
	var broken *BrokenError
	if err := l.Explain(flush); !errors.As(err, &broken) || !errors.Is(err, flush) {
		t.Errorf("Explain(%v) = %v, want a *BrokenError", flush, err)
	}
	if err := l.Send(soonCtx(t)); !errors.As(err, &broken) {
		t.Errorf("Send() = %v, want a *BrokenError", err)
	}
}

func failQPOf(l *linked) { l.faults.FailQP(l.qp.Num()) }

// TestReadAllocatesNothing checks the allocations of Read and Write.
func TestReadAllocatesNothing(t *testing.T) {
	l := linkedConn(t)
	ctx := soonCtx(t)
	local, remote := l.buf.Slice(0, 8), l.theirs.Remote()
	for name, op := range map[string]func() error{
		"Read":  func() error { return l.Read(ctx, local, remote) },
		"Write": func() error { return l.Write(ctx, local, remote) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := op(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}

func TestPostRecvAllocatesNothing(t *testing.T) {
	l := linkedConn(t)
	runs := l.qp.Cap().RecvWR - 1 // AllocsPerRun adds one run
	if n := testing.AllocsPerRun(runs, func() {
		if err := l.PostRecv(1, l.buf.Slice(0, 8), l.buf.Slice(64, 8)); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
	}); n != 0 {
		t.Errorf("PostRecv allocates %v times, want 0", n)
	}
	if err := l.PostRecv(1, l.buf.Slice(0, 8)); !errors.Is(err, verbs.ErrFull) {
		t.Errorf("PostRecv() to a full queue = %v, want %v", err, verbs.ErrFull)
	}
}

// TestRemoteBounds reads and writes more bytes than the remote memory has.
func TestRemoteBounds(t *testing.T) {
	l := linkedConn(t)
	local, remote := l.buf.Slice(0, 8), l.theirs.Remote().Slice(64, 7)
	for name, err := range map[string]error{
		"Read":  l.Read(soonCtx(t), local, remote),
		"Write": l.Write(soonCtx(t), local, remote),
	} {
		if !errors.Is(err, verbs.ErrRemoteLength) {
			t.Errorf("%s() = %v, want %v", name, err, verbs.ErrRemoteLength)
		}
	}
	if err := l.Write(soonCtx(t), local, l.theirs.Remote().Slice(64, 8)); err != nil {
		t.Errorf("Write() of all bytes of the memory = %v, want nil", err)
	}
}

// TestReadWithoutDepth reads on a connection whose InitiatorDepth is None.
func TestReadWithoutDepth(t *testing.T) {
	l := linkedConnOfDepth(t, 0)
	err := l.Read(soonCtx(t), l.buf.Slice(0, 8), l.theirs.Remote())
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "InitiatorDepth") {
		t.Errorf("Read() = %v, want %v and the text InitiatorDepth", err, syscall.EINVAL)
	}
	if err := l.Write(soonCtx(t), l.buf.Slice(0, 8), l.theirs.Remote()); err != nil {
		t.Errorf("Write() afterwards = %v, want nil", err)
	}
}

// TestOperations runs requests on the queue of a connection, with a function, and a detached
// operation.
func TestOperations(t *testing.T) {
	l := linkedConn(t)
	q, err := l.Operations()
	if err != nil {
		t.Fatalf("Operations() = %v", err)
	}
	theirs := l.theirs.Remote()
	copy(l.buf.Bytes(), "by a function, detached")
	op, err := l.StartWrite(soonCtx(t), l.buf.Slice(13, 10), theirs.Slice(13, 10), nil)
	if err != nil {
		t.Fatalf("StartWrite() = %v", err)
	}
	op.Detach()
	result := make(chan error, 1)
	wr := verbs.SendWR{Opcode: verbs.OpWrite, SGList: []verbs.SGE{l.buf.Slice(0, 13)}, RemoteAddr: theirs.Addr, RKey: theirs.RKey}
	if err := q.Go(soonCtx(t), &wr, nil, func(err error) { result <- err }); err != nil {
		t.Fatalf("Go() = %v", err)
	}
	if err := <-result; err != nil {
		t.Errorf("result of a WRITE = %v", err)
	}
	if got := l.theirs.Bytes()[:23]; string(got) != "by a function, detached" {
		t.Errorf("the peer's memory = %q, want the bytes of both WRITEs", got)
	}
}
