// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"strings"
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

// TestTheRequestIsThePeers checks that the peer's request bounds the parameters of Accept,
// even if the program has changed the event.
func TestTheRequestIsThePeers(t *testing.T) {
	k := newFakeKernel()
	var given abi.UcmConnParam
	h := &hooked{fakeKernel: k, write: func(b []byte) {
		if binary.NativeEndian.Uint32(b) == abi.RDMA_USER_CM_CMD_ACCEPT {
			given = abi.View[abi.UcmAccept](b[8:]).ConnParam
		}
	}}
	host := fakeHost()
	ch := newEventChannel(ucma.New(h), host)
	defer ch.Close()
	l := newFakeID(t, ch)
	k.mu.Lock()
	k.uids[70] = 0
	k.mu.Unlock()
	asked := abi.UcmConnParam{ResponderResources: 3, InitiatorDepth: 2}
	raw := abi.UcmEventResp{UID: l.uid, ID: 70, Event: uint32(EventConnectRequest)}
	copy(raw.Param[:], abi.Bytes(&asked))
	k.events <- raw
	ev := mustNext(t, ch)
	var err error
	if ev.ID.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	// C programs answer with the parameters of the event.
	param := &ev.Conn
	param.QPNum, param.ResponderResources, param.InitiatorDepth = 5, 0, 0
	if err := ev.ID.Accept(param); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if given.ResponderResources != 3 || given.InitiatorDepth != 2 {
		t.Errorf("depths of ACCEPT = %d, %d, want 3, 2 of the peer's request", given.ResponderResources, given.InitiatorDepth)
	}
}

// TestCloseBehindMigrate checks that a Migrate that waits for a command in the kernel delays
// Close only as long as the command does.
func TestCloseBehindMigrate(t *testing.T) {
	for name, closing := range map[string]func(*ID) error{
		"ID":      (*ID).Close,
		"channel": func(id *ID) error { return id.Channel().Close() },
	} {
		k := newFakeKernel()
		stuck, free := make(chan struct{}), make(chan struct{})
		h := &hooked{fakeKernel: k, write: func(b []byte) {
			if binary.NativeEndian.Uint32(b) == abi.RDMA_USER_CM_CMD_DISCONNECT {
				close(stuck)
				<-free
			}
		}}
		a, b := newEventChannel(ucma.New(h), &verbs.Host{}), newEventChannel(ucma.New(k), &verbs.Host{})
		id := newFakeID(t, a)
		done := make(chan struct{}, 2)
		go func() { id.Disconnect(); done <- struct{}{} }()
		<-stuck
		go func() { id.Migrate(b); done <- struct{}{} }()
		for id.moving.TryRLock() { // until Migrate waits
			id.moving.RUnlock()
			runtime.Gosched()
		}
		closed := make(chan struct{})
		go func() { closing(id); close(closed) }()
		select {
		case <-closed:
		case <-time.After(5 * closeGrace):
			t.Errorf("Close of the %s did not return", name)
		}
		close(free)
		<-done
		<-done
		<-closed
		b.Close()
		a.Close()
	}
}

// srqDriver is rxe with SRQs that cannot hold receives. A test can act while a QP is created.
type srqDriver struct {
	rxe.Driver
	creating func()
}

type srqContext struct {
	provider.Context
	creating func()
}

type emptySRQ struct{ provider.SRQ }

func (emptySRQ) Close() error { return nil }

func (emptySRQ) Attr() provider.SRQAttr { return provider.SRQAttr{MaxWR: 128} }

func (d srqDriver) Open(f *uverbs.File) (provider.Context, error) {
	c, err := d.Driver.Open(f)
	return srqContext{c, d.creating}, err
}

func (c srqContext) CreateSRQ(*provider.SRQConfig) (provider.SRQ, error) { return emptySRQ{}, nil }

func (c srqContext) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	c.creating()
	plain := *cfg
	plain.SRQ = nil
	return c.Context.CreateQP(&plain)
}

// TestCloseWhileAQPIsMade checks that Close during the creation of a QP closes the QP first,
// and then the objects that the QP uses.
func TestCloseWhileAQPIsMade(t *testing.T) {
	var id *ID
	closed := make(chan struct{})
	kernel := uverbstest.New("rxe0")
	host := &verbs.Host{Kernel: kernel, Drivers: []provider.Driver{srqDriver{creating: func() {
		go func() { defer close(closed); id.Close() }()
		select {
		case <-closed:
		case <-time.After(20 * time.Millisecond):
		}
	}}}}
	ch := newEventChannel(ucma.New(newFakeKernel()), host)
	defer ch.Close()
	id = newFakeID(t, ch)
	var err error
	if id.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	if err := id.CreateSRQ(nil, verbs.SRQConfig{}); err != nil {
		t.Fatalf("id.CreateSRQ: %v", err)
	}
	if err := id.CreateQP(nil, verbs.QPConfig{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CreateQP during Close = %v, want net.ErrClosed", err)
	}
	<-closed
	if n := kernel.Opened(); n != 0 {
		t.Errorf("Opened() = %d, want 0", n)
	}
}

// TestTypesOfAPortSpace checks that NewID refuses a QP type that does not match the port
// space. The kernel uses the type of the port space, and does not report that it differs from
// the requested one.
func TestTypesOfAPortSpace(t *testing.T) {
	ch, k := newFakeChannel(t)
	for _, tc := range []struct {
		ps PortSpace
		t  verbs.QPType
		ok bool
	}{
		{PortSpaceTCP, verbs.UD, false}, {PortSpaceUDP, verbs.RC, false}, {PortSpaceIPoIB, verbs.UC, false},
		{PortSpaceTCP, verbs.RC, true}, {PortSpaceTCP, verbs.UC, true}, {PortSpaceUDP, verbs.UD, true},
		{PortSpaceIB, verbs.UD, true}, {PortSpaceIB, verbs.RC, true}, {PortSpaceIB, 0, true},
	} {
		before := k.living()
		id, err := ch.NewID(IDConfig{PortSpace: tc.ps, QPType: tc.t})
		if tc.ok != (err == nil) {
			t.Errorf("NewID(%v, %v) = %v, want success %v", tc.ps, tc.t, err, tc.ok)
		}
		if err != nil && (!errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), tc.ps.String()) || k.living() != before) {
			t.Errorf("NewID(%v, %v) = %v with %d new IDs, want EINVAL with the port space and no new ID", tc.ps, tc.t, err, k.living()-before)
		}
		if err == nil {
			id.Close()
		}
	}
}

// TestTheErrorNamesTheSecondDestination resolves a second destination with an ID whose first
// did not resolve.
func TestTheErrorNamesTheSecondDestination(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	for _, to := range []string{"10.0.0.1:1", "10.0.0.2:2"} {
		if err := id.ResolveAddr(Addr{}, mustAddr(to), time.Second); err != nil {
			t.Fatalf("id.ResolveAddr: %v", err)
		}
		k.queue(id.kid, EventAddrError, -int32(syscall.ETIMEDOUT))
		if err := mustNext(t, ch).Err(); !strings.Contains(err.Error(), to) {
			t.Errorf("Err() = %v, want %s", err, to)
		}
	}
	k.fail[abi.RDMA_USER_CM_CMD_RESOLVE_ADDR] = syscall.ENETUNREACH
	if err := id.ResolveAddr(Addr{}, mustAddr("10.0.0.3:3"), time.Second); err == nil || !strings.Contains(err.Error(), "10.0.0.3:3") {
		t.Errorf("ResolveAddr() = %v, want an error with the third destination", err)
	}
	if a := id.RemoteAddr(); a != mustAddr("10.0.0.2:2") {
		t.Errorf("RemoteAddr() = %v, want the second destination", a)
	}
}

// TestAStageWithoutADevice checks that calls return an error, and do not panic, if the kernel
// names no device.
func TestAStageWithoutADevice(t *testing.T) {
	ch, _ := newFakeChannel(t)
	s := &pendingConn{ep: newEndpoint(ch, newFakeID(t, ch))}
	if _, err := s.PD(); !errors.Is(err, errNoDevice) {
		t.Errorf("PD() = %v, want %v", err, errNoDevice)
	}
	if _, err := s.QP(); !errors.Is(err, errNoDevice) {
		t.Errorf("QP() = %v, want %v", err, errNoDevice)
	}
	if err := s.PostRecv(0); !errors.Is(err, errNoDevice) {
		t.Errorf("PostRecv() = %v, want %v", err, errNoDevice)
	}
	r := &Resolved{pendingConn: pendingConn{ep: s.ep}}
	go s.ep.pump()
	if _, err := r.Connect(context.Background(), nil, nil); !errors.Is(err, errNoDevice) {
		t.Errorf("Connect() = %v, want %v", err, errNoDevice)
	}
}

// sleepy is a kernel that hands out the event of a migrated ID, but wakes no goroutine for it.
type sleepy struct {
	*fakeKernel
	waiting chan struct{} // gets a token from each wait that begins
	moved   atomic.Pointer[abi.UcmEventResp]
}

func (s *sleepy) WriteWhenReadable(ctx context.Context, b []byte) error {
	for {
		if ev := s.moved.Swap(nil); ev != nil {
			*(*abi.UcmEventResp)(pointerAt(b, 8)) = *ev
			return nil
		}
		s.waiting <- struct{}{}
		if err := s.wait(ctx, b); err != errWoken {
			return err
		}
	}
}

// TestMigrateWakesWaiters checks that Migrate wakes a waiting Next for the events that move
// with the ID.
func TestMigrateWakesWaiters(t *testing.T) {
	k := newFakeKernel()
	s := &sleepy{fakeKernel: k, waiting: make(chan struct{}, 9)}
	a, b := newEventChannel(ucma.New(k), &verbs.Host{}), newEventChannel(ucma.New(s), &verbs.Host{})
	defer a.Close()
	defer b.Close()
	for range 2 {
		id := newFakeID(t, a)
		got := make(chan *Event, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			ev, err := b.Next(ctx)
			if err != nil {
				t.Errorf("Next: %v", err)
			}
			got <- ev
		}()
		<-s.waiting
		s.moved.Store(&abi.UcmEventResp{UID: id.uid, ID: id.kid, Event: uint32(EventAddrChange)})
		if err := id.Migrate(b); err != nil {
			t.Fatalf("id.Migrate: %v", err)
		}
		if ev := <-got; ev == nil || ev.ID != id {
			t.Fatalf("Next() = %v, want an event of the ID", ev)
		}
		// Also migrate an ID while no goroutine waits, and end the next wait by its context.
		other := newFakeID(t, a)
		if err := other.Migrate(b); err != nil {
			t.Fatalf("other.Migrate: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		if ev, err := b.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next() = %v, %v, want DeadlineExceeded", ev, err)
		}
		cancel()
		for len(s.waiting) > 0 {
			<-s.waiting
		}
	}
}
