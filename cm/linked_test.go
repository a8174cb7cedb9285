// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// wrongKey is remote memory that is not registered.
var wrongKey = verbs.RemoteMemory{Addr: 0x1000, Length: 1 << 20, RKey: 0xdead}

// faults is a kernel with RDMA devices that refuses commands.
type faults struct {
	*uverbstest.Kernel
	request func(*uverbs.Request) error // decides on commands, may be nil
	arm     atomic.Int32                // the number of following REQ_NOTIFY_CQ that fail
	sends   atomic.Int32                // counts the doorbells of send queues
}

func (k *faults) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return faultyTransport{t, k}, err
}

type faultyTransport struct {
	uverbs.Transport
	k *faults
}

func (t faultyTransport) Ioctl(req *uverbs.Request) error {
	if fn := t.k.request; fn != nil {
		if err := fn(req); err != nil {
			return err
		}
	}
	return t.Transport.Ioctl(req)
}

func (t faultyTransport) Write(b []byte) error {
	switch abi.View[abi.UverbsCmdHdr](b).Command {
	case abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		if t.k.arm.Add(-1) >= 0 {
			return syscall.ENOMEM
		}
	case abi.IB_USER_VERBS_CMD_POST_SEND:
		t.k.sends.Add(1)
	}
	return t.Transport.Write(b)
}

// isWrite reports whether a request is a command of the write interface.
func isWrite(req *uverbs.Request, cmd uint32) bool {
	return req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_INVOKE_WRITE &&
		uverbs.Number(req.Find(abi.UVERBS_ATTR_WRITE_CMD).Buf) == uint64(cmd)
}

// linked is a connection on fake kernels. Its QP can send to peer.
type linked struct {
	*Conn
	k      *fakeKernel
	faults *faults
	peer   *verbs.QP
	buf    *verbs.MR
	theirs *verbs.MR
}

// linkedConn connects the QP of a Conn with another QP, which has no receive posted.
func linkedConn(t *testing.T) *linked {
	t.Helper()
	return linkedConnOfDepth(t, 4)
}

// linkedConnOfDepth returns a linkedConn with an InitiatorDepth.
func linkedConnOfDepth(t *testing.T, depth uint8) *linked {
	t.Helper()
	l := &linked{k: newFakeKernel(), faults: &faults{Kernel: uverbstest.New("rxe0")}}
	l.k.accepts = true
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: l.faults}
	ch := newEventChannel(ucma.New(l.k), host)
	id := newFakeID(t, ch)
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	id.dev, id.state = dev, StateRouteResolved
	ep := newEndpoint(ch, id)
	go ep.pump()
	if l.Conn, err = (&Resolved{pendingConn: pendingConn{ep: ep}}).Connect(context.Background(), nil, nil); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if l.peer, err = l.PD().CreateQP(verbs.QPConfig{}); err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	access := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	mask := verbs.QPAttrState
	for i, qp := range []*verbs.QP{l.qp, l.peer} {
		for _, a := range []struct {
			attr verbs.QPAttr
			mask verbs.QPAttrMask
		}{
			{verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: access}, verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess},
			{verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: []*verbs.QP{l.peer, l.qp}[i].Num(), MaxDestRdAtomic: 4,
				AH: verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, HopLimit: 64}}},
				verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer},
			{verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7, MaxRdAtomic: depth},
				verbs.QPAttrSQPSN | verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrMaxRdAtomic},
		} {
			if err := qp.Modify(&a.attr, mask|a.mask); err != nil {
				t.Fatalf("Modify: %v", err)
			}
		}
	}
	for _, mr := range []**verbs.MR{&l.buf, &l.theirs} {
		if *mr, err = l.PD().Alloc(4096, access); err != nil {
			t.Fatalf("Alloc: %v", err)
		}
	}
	t.Cleanup(func() {
		l.faults.request = nil
		l.faults.arm.Store(0)
		if err := errors.Join(l.Close(), l.peer.Close(), l.buf.Close(), l.theirs.Close()); err != nil {
			t.Errorf("Close of the connection, its peer and their memory: %v", err)
		}
	})
	return l
}

// soonSends calls Send and fails the test if Send does not return.
func (l *linked) soonSends(t *testing.T, ctx context.Context) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- l.Send(ctx, l.buf.Slice(0, 64)) }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("Send did not return within 20 seconds")
		return nil
	}
}

// cancelledSend calls Send with a context of end, which ends while the device has the message.
// On a slow machine the context may end before Send posts the message. cancelledSend then
// tries again with a longer one.
func (l *linked) cancelledSend(t *testing.T, end func(after time.Duration) (context.Context, context.CancelFunc)) error {
	t.Helper()
	for after := 20 * time.Millisecond; ; after *= 2 {
		ctx, cancel := end(after)
		err := l.soonSends(t, ctx)
		cancel()
		if l.faults.sends.Load() > 0 {
			return err
		}
	}
}

// withTimeout returns a context that ends at a deadline.
func withTimeout(after time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), after)
}

// withCancel returns a context that is cancelled after a time.
func withCancel(after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(after, cancel)
	return ctx, cancel
}

// withCause returns a context that is cancelled with a cause that looks like the end of a
// connection.
func withCause(after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(after, func() { cancel(io.EOF) })
	return ctx, func() { cancel(nil) }
}

// takenBack checks that the device no longer uses the memory of a Send. A receive that the
// peer posts gets no message.
func (l *linked) takenBack(t *testing.T) {
	t.Helper()
	if verbsInternal.Closed(l.qp).Err() == nil && l.qp.State() != verbs.QPErr {
		t.Errorf("QP state after a cancelled Send = %v, want %v or closed", l.qp.State(), verbs.QPErr)
	}
	if _, err := l.peer.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{l.theirs.SGE()}}}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var wcs [1]verbs.WC
	if n, _ := l.peer.RecvCQ().Wait(ctx, wcs[:]); n != 0 && wcs[0].Err() == nil {
		t.Error("the peer received a message after its Send had returned")
	}
	var broken *BrokenError
	if err := l.Send(context.Background()); !errors.As(err, &broken) || broken.Op != "send" || !broken.Cancelled {
		t.Errorf("Send() afterwards = %v, want a *BrokenError of a cancelled send", err)
	}
}
