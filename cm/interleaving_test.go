// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/ucma"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// hooked is a fakeKernel that calls functions of the test before commands and after events.
type hooked struct {
	*fakeKernel
	write   func(b []byte) // called before a command
	fetched func()         // called after an event was fetched
}

func (h *hooked) Write(b []byte) error {
	if h.write != nil {
		h.write(b)
	}
	return h.fakeKernel.Write(b)
}

func (h *hooked) WriteWhenReadable(ctx context.Context, b []byte) error {
	err := h.fakeKernel.WriteWhenReadable(ctx, b)
	if err == nil && h.fetched != nil {
		h.fetched()
	}
	return err
}

// fakeHost returns a host with two rxe devices in memory.
func fakeHost() *verbs.Host {
	return &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0", "rxe1")}
}

// fakeEndpoint returns an endpoint on a fake connection manager. Its ID has a fake device and
// the given state.
func fakeEndpoint(t *testing.T, state State) (*endpoint, *fakeKernel) {
	t.Helper()
	k, host := newFakeKernel(), fakeHost()
	ch := newEventChannel(ucma.New(k), host)
	id := newFakeID(t, ch)
	var err error
	if id.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	id.state = state
	ep := newEndpoint(ch, id)
	go ep.pump()
	t.Cleanup(func() { ep.close() })
	return ep, k
}

func TestEveryAcceptReportsRemoval(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	l := &Listener{ch: ch, id: id}
	k.queue(id.kid, EventDeviceRemoval, 0)
	for i := range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var gone *verbs.DeviceRemovedError
		if _, err := l.Accept(ctx); !errors.As(err, &gone) {
			t.Errorf("Accept() number %d = %v, want a DeviceRemovedError", i, err)
		}
	}
}

// TestNoIDIsKnownBeforeItHasItsNumber checks that Close finds no ID before the kernel has
// assigned its number. Number 0 may belong to another ID.
func TestNoIDIsKnownBeforeItHasItsNumber(t *testing.T) {
	h := &hooked{fakeKernel: newFakeKernel()}
	ch := newEventChannel(ucma.New(h), &verbs.Host{})
	closed := make(chan struct{})
	h.write = func(b []byte) {
		switch binary.NativeEndian.Uint32(b) {
		case abi.RDMA_USER_CM_CMD_CREATE_ID:
			go func() { defer close(closed); ch.Close() }()
			time.Sleep(20 * time.Millisecond)
		case abi.RDMA_USER_CM_CMD_DESTROY_ID:
			if binary.NativeEndian.Uint32(b[16:]) == 0 {
				t.Error("DESTROY_ID of ID 0 was sent before CREATE_ID returned")
			}
		}
	}
	if id, err := ch.NewID(IDConfig{}); err == nil {
		t.Errorf("NewID() during Close = %v, want an error", id)
	}
	<-closed
	if n := h.living(); n != 0 {
		t.Errorf("%d IDs left, want 0", n)
	}
}

func TestMigrationLosesNoEvent(t *testing.T) {
	k := newFakeKernel()
	h := &hooked{fakeKernel: k}
	a, b := newEventChannel(ucma.New(h), &verbs.Host{}), newEventChannel(ucma.New(k), &verbs.Host{})
	defer b.Close()
	id := newFakeID(t, a)
	// The ID migrates after its event has been fetched and before the channel handles the
	// event.
	h.fetched = func() { h.fetched = nil; id.Migrate(b) }
	k.queue(id.kid, EventDisconnected, 0)
	if ev := mustNext(t, a); ev.ID != id || ev.Type != EventDisconnected {
		t.Errorf("Next() = %v, want DISCONNECTED of the ID", ev)
	}
	a.Close()
	if err := id.Listen(1); errors.Is(err, net.ErrClosed) {
		t.Error("Listen after the Close of the old channel = net.ErrClosed, want an open ID")
	}
}

func TestTwoMigrationsToOneChannel(t *testing.T) {
	k := newFakeKernel()
	a, b := newEventChannel(ucma.New(k), &verbs.Host{}), newEventChannel(ucma.New(k), &verbs.Host{})
	defer b.Close()
	id := newFakeID(t, a)
	second := make(chan error)
	go func() { second <- id.Migrate(b) }()
	if err := errors.Join(id.Migrate(b), <-second); err != nil {
		t.Errorf("two calls of Migrate: %v, want nil", err)
	}
	if id.Channel() != b || b.find(id.uid) != id {
		t.Error("Channel() is not the new channel, or the new channel does not find the ID")
	}
}

func TestDestroyNamesAnEventThatIsHeld(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.queue(id.kid, EventAddrChange, 0)
	k.queue(id.kid, EventTimewaitExit, 0)
	mustNext(t, ch) // not acknowledged
	mustNext(t, ch).Ack()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := id.Destroy(ctx); err == nil || !strings.Contains(err.Error(), "ADDR_CHANGE") {
		t.Errorf("Destroy() = %v, want an error with ADDR_CHANGE", err)
	}
}

func TestAStageIsUsedOnce(t *testing.T) {
	ep, k := fakeEndpoint(t, StateRouteResolved)
	r := &Resolved{pendingConn: pendingConn{ep: ep}}
	k.accepts = true
	conn, err := r.Connect(context.Background(), nil, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	k.mu.Lock()
	k.fail[abi.RDMA_USER_CM_CMD_CONNECT] = syscall.EINVAL
	k.mu.Unlock()
	if again, err := r.Connect(context.Background(), nil, nil); again != nil || !errors.Is(err, errUsed) {
		t.Errorf("second Connect() = %v, %v, want %v", again, err, errUsed)
	}
	if conn.ID().State() != StateEstablished {
		t.Errorf("State() = %v, want established", conn.ID().State())
	}

	ep, _ = fakeEndpoint(t, StateEstablished)
	req := &Request{pendingConn: pendingConn{ep: ep}}
	req.phase.Store(connUsed)
	req.done.Store(true)
	if err := req.Reject(nil); !errors.Is(err, errUsed) {
		t.Errorf("Reject() of an accepted request = %v, want %v", err, errUsed)
	}
	if _, err := req.Accept(context.Background(), nil, nil); !errors.Is(err, errUsed) || ep.id.State() != StateEstablished {
		t.Errorf("second Accept() = %v, want %v", err, errUsed)
	}
}

// TestThePeerDiesBeforeItKnows checks a peer whose process dies after it has accepted and
// before it gets the confirmation. The peer's kernel can then only send a rejection.
func TestThePeerDiesBeforeItKnows(t *testing.T) {
	ep, k := fakeEndpoint(t, StateRouteResolved)
	k.accepts = true
	r := &Resolved{pendingConn: pendingConn{ep: ep}}
	conn, err := r.Connect(context.Background(), nil, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	k.queue(ep.id.kid, EventRejected, 28)
	select {
	case <-conn.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("Done is not closed within 5 seconds")
	}
	if got := ep.end; got != (End{Event: EventDisconnected}) || conn.ID().State() != StateDisconnected || !errors.Is(ep.cause, syscall.ECONNRESET) {
		t.Errorf("end = %+v with cause %v in state %v, want DISCONNECTED with ECONNRESET", got, ep.cause, conn.ID().State())
	}
	if err := conn.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
}

// TestTheRemovalDisconnects checks a disconnect that comes before the removal. The IDs of a
// device get its removal one after another. The first one releases the device, which may
// disconnect the other IDs before their event.
func TestTheRemovalDisconnects(t *testing.T) {
	ep, k := fakeEndpoint(t, StateRouteResolved)
	k.accepts = true
	r := &Resolved{pendingConn: pendingConn{ep: ep}}
	conn, err := r.Connect(context.Background(), nil, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	verbsInternal.MarkRemoved(ep.id.Device())
	k.queue(ep.id.kid, EventDisconnected, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if end, err := conn.Wait(ctx); err != nil || end != (End{Event: EventDeviceRemoval}) {
		t.Errorf("Wait() = %+v, %v, want DEVICE_REMOVAL", end, err)
	}
	var removed *verbs.DeviceRemovedError
	if !errors.As(ep.cause, &removed) || removed.Device != "rxe0" {
		t.Errorf("cause = %v, want a DeviceRemovedError of rxe0", ep.cause)
	}
	if err := conn.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
}

// TestSharedReceiveCQ checks that WaitRecv refuses a CQ for both queues, because it would take the
// completions of the program's sends.
func TestSharedReceiveCQ(t *testing.T) {
	ep, _ := fakeEndpoint(t, StateEstablished)
	pd, err := ep.id.dev.DefaultPD()
	if err != nil {
		t.Fatalf("DefaultPD: %v", err)
	}
	cq, err := ep.id.dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatalf("CreateCQ: %v", err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	defer qp.Close()
	conn := newConn(ep, qp)
	if _, err := conn.WaitRecv(context.Background()); !errors.Is(err, errSharedCQ) {
		t.Errorf("WaitRecv() = %v, want %v", err, errSharedCQ)
	}
}

// TestTheDeadlineIsTheContexts checks that the error names the context if its end and the
// kernel's timeout come together.
func TestTheDeadlineIsTheContexts(t *testing.T) {
	h := &hooked{fakeKernel: newFakeKernel()}
	ch := newEventChannel(ucma.New(h), &verbs.Host{})
	defer ch.Close()
	id := newFakeID(t, ch)
	var asked atomic.Int32
	h.write = func(b []byte) {
		if binary.NativeEndian.Uint32(b) == abi.RDMA_USER_CM_CMD_RESOLVE_ADDR {
			asked.Add(1)
			ms := binary.NativeEndian.Uint32(b[12:])
			time.AfterFunc(time.Duration(ms)*time.Millisecond, func() { h.queue(id.kid, EventAddrError, -int32(syscall.ETIMEDOUT)) })
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := new(Dialer).resolve(ctx, id, mustAddr("10.0.0.1:1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("resolve() = %v, want DeadlineExceeded", err)
	}
	if asked.Load() < 2 {
		t.Errorf("%d RESOLVE_ADDR commands, want at least 2", asked.Load())
	}
}
