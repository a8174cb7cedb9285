// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
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

// groupKernel is a fake kernel with QPs for datagrams that can be in multicast groups. Like
// Linux it attaches a QP to a group once. Detaching a QP that is not attached returns EINVAL.
type groupKernel struct {
	*uverbstest.Kernel
	attaching func() // called before a QP is attached

	mu       sync.Mutex
	attached map[attachment]bool
}

// attachment is a QP that is attached to a group.
type attachment struct {
	dev int
	abi.UverbsAttachMcast
}

func newGroupKernel(devices ...string) *groupKernel {
	return &groupKernel{Kernel: uverbstest.New(devices...), attached: map[attachment]bool{}}
}

type groupTransport struct {
	uverbs.Transport
	k   *groupKernel
	dev int
}

func (k *groupKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return groupTransport{t, k, info.Index}, err
}

func (t groupTransport) Ioctl(req *uverbs.Request) error {
	if req.Object == abi.UVERBS_OBJECT_QP && req.Method == abi.UVERBS_METHOD_QP_CREATE {
		binary.NativeEndian.PutUint64(req.Find(abi.UVERBS_ATTR_CREATE_QP_TYPE).Buf, abi.IB_UVERBS_QPT_RC)
	}
	cmd := req.Find(abi.UVERBS_ATTR_WRITE_CMD)
	if req.Object != abi.UVERBS_OBJECT_DEVICE || req.Method != abi.UVERBS_METHOD_INVOKE_WRITE || cmd == nil {
		return t.Transport.Ioctl(req)
	}
	code := binary.NativeEndian.Uint64(cmd.Buf)
	attach := code == abi.IB_USER_VERBS_CMD_ATTACH_MCAST
	if !attach && code != abi.IB_USER_VERBS_CMD_DETACH_MCAST {
		return t.Transport.Ioctl(req)
	}
	if attach && t.k.attaching != nil {
		t.k.attaching()
	}
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	key := attachment{t.dev, *abi.View[abi.UverbsAttachMcast](req.Find(abi.UVERBS_ATTR_CORE_IN).Buf)}
	switch {
	case attach:
		t.k.attached[key] = true
	case !t.k.attached[key]:
		return syscall.EINVAL
	default:
		delete(t.k.attached, key)
	}
	return nil
}

func (k *groupKernel) groups() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.attached)
}

// fakeMember returns a datagram ID on fake kernels with a QP of the program.
func fakeMember(t *testing.T, dev ucma.Device) (*ID, *groupKernel) {
	t.Helper()
	k := newGroupKernel("rxe0")
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: k}
	ch := newEventChannel(ucma.New(dev), host)
	t.Cleanup(func() { ch.Close() })
	id, err := ch.NewID(IDConfig{PortSpace: PortSpaceUDP})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	if id.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	pd, err := id.dev.DefaultPD()
	if err != nil {
		t.Fatalf("id.dev.DefaultPD: %v", err)
	}
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.UD})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	t.Cleanup(func() {
		id.Close()
		if n := k.groups(); n != 0 {
			t.Errorf("the QP is attached to %d groups at the end, want 0", n)
		}
		qp.Close()
	})
	id.qp = qp
	return id, k
}

// joinEvent returns the kernel's event for a membership in 239.1.2.3.
func joinEvent(uid uint64) abi.UcmEventResp {
	var ud abi.UcmUDParam
	copy(ud.AHAttr.GRH.DGID[10:], []byte{0xff, 0xff, 239, 1, 2, 3})
	ud.AHAttr.IsGlobal = 1
	ev := abi.UcmEventResp{UID: uid, Event: abi.RDMA_CM_EVENT_MULTICAST_JOIN}
	copy(ev.Param[:], abi.Bytes(&ud))
	return ev
}

func mustJoin(t *testing.T, id *ID) *Multicast {
	t.Helper()
	m, err := id.JoinMulticast(mustAddr("239.1.2.3:0"), FullMember)
	if err != nil {
		t.Fatalf("id.JoinMulticast: %v", err)
	}
	return m
}

// TestLeaveWhileAttaching checks that a Leave while the event is handled leaves no QP
// attached.
func TestLeaveWhileAttaching(t *testing.T) {
	fake := newFakeKernel()
	id, k := fakeMember(t, fake)
	m := mustJoin(t, id)
	left := make(chan error, 1)
	k.attaching = func() {
		go func() { left <- m.Leave() }()
		for end := time.Now().Add(5 * time.Second); id.membership(m.uid) != nil && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond) // until the rest of Leave has run
	}
	fake.events <- joinEvent(m.uid)
	mustNext(t, id.Channel())
	if err := <-left; err != nil {
		t.Errorf("Leave: %v", err)
	}
	if n := k.groups(); n != 0 {
		t.Errorf("attached to %d groups after Leave, want 0", n)
	}
}

// TestTwoMembershipsInOneGroup checks that the QP stays attached until its last membership
// ends.
func TestTwoMembershipsInOneGroup(t *testing.T) {
	fake := newFakeKernel()
	id, k := fakeMember(t, fake)
	one, two := mustJoin(t, id), mustJoin(t, id)
	for _, m := range []*Multicast{one, two} {
		fake.events <- joinEvent(m.uid)
		if ev := mustNext(t, id.Channel()); ev.Err() != nil {
			t.Fatalf("Err() = %v, want nil", ev.Err())
		}
	}
	if err := one.Leave(); err != nil || k.groups() != 1 {
		t.Errorf("first Leave() = %v, attached to %d groups, want nil, 1", err, k.groups())
	}
	if err := two.Leave(); err != nil || k.groups() != 0 {
		t.Errorf("second Leave() = %v, attached to %d groups, want nil, 0", err, k.groups())
	}
}

// TestLeaveAfterQPClose checks that Leave succeeds after the program has closed the QP.
func TestLeaveAfterQPClose(t *testing.T) {
	fake := newFakeKernel()
	id, _ := fakeMember(t, fake)
	m := mustJoin(t, id)
	fake.events <- joinEvent(m.uid)
	mustNext(t, id.Channel())
	if err := id.QP().Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := m.Leave(); err != nil {
		t.Errorf("Leave: %v", err)
	}
}

// answering assigns numbers to memberships. Their events come before the numbers.
type answering struct {
	*fakeKernel
	left chan uint32 // the numbers that LEAVE_MCAST names
}

func (a *answering) Write(b []byte) error {
	switch binary.NativeEndian.Uint32(b) {
	case abi.RDMA_USER_CM_CMD_JOIN_MCAST:
		a.events <- joinEvent(binary.NativeEndian.Uint64(b[16:]))
		time.Sleep(20 * time.Millisecond)
		*(*uint32)(pointerAt(b, 8)) = 7
	case abi.RDMA_USER_CM_CMD_LEAVE_MCAST:
		a.left <- binary.NativeEndian.Uint32(b[16:])
	}
	return a.fakeKernel.Write(b)
}

// TestLeaveBeforeJoinReturns checks a Leave after the event and before the number of the
// membership is known. Number 0 may belong to another membership.
func TestLeaveBeforeJoinReturns(t *testing.T) {
	a := &answering{newFakeKernel(), make(chan uint32, 1)}
	id, _ := fakeMember(t, a)
	go func() {
		ev, err := id.Channel().Next(context.Background())
		if err == nil {
			err = ev.Multicast.Leave()
		}
		if err != nil {
			t.Errorf("Next and Leave: %v", err)
			a.left <- 0
		}
	}()
	mustJoin(t, id)
	if n := <-a.left; n != 7 {
		t.Errorf("LEAVE_MCAST of membership %d, want 7", n)
	}
}

// TestLeaveAndClose calls Leave and Close at the same time.
func TestLeaveAndClose(t *testing.T) {
	ch, _ := newFakeChannel(t)
	for range 200 {
		id, err := ch.NewID(IDConfig{PortSpace: PortSpaceUDP})
		if err != nil {
			t.Fatalf("NewID: %v", err)
		}
		one, two := mustJoin(t, id), mustJoin(t, id)
		var wg sync.WaitGroup
		for _, m := range []*Multicast{two, one} {
			wg.Go(func() {
				if err := m.Leave(); err != nil {
					t.Errorf("Leave: %v", err)
				}
			})
		}
		wg.Go(func() { id.JoinMulticast(mustAddr("239.1.2.4:0"), FullMember) })
		id.Close()
		wg.Wait()
		if _, err := id.JoinMulticast(mustAddr("239.1.2.4:0"), FullMember); !errors.Is(err, net.ErrClosed) {
			t.Errorf("JoinMulticast after Close = %v, want net.ErrClosed", err)
		}
	}
}

// TestDestroyWaitsForMemberships checks that Destroy waits for the events of memberships, like
// rdma_destroy_id(3). The reader of an event may change its type.
func TestDestroyWaitsForMemberships(t *testing.T) {
	fake := newFakeKernel()
	id, _ := fakeMember(t, fake)
	m := mustJoin(t, id)
	fake.events <- joinEvent(m.uid)
	ev := mustNext(t, id.Channel())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	for _, wait := range []func(context.Context) error{m.WaitAcked, id.Destroy} {
		if err := wait(ctx); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "MULTICAST_JOIN") {
			t.Errorf("wait with an unacknowledged event = %v, want a passed deadline with MULTICAST_JOIN", err)
		}
	}
	ev.Type, ev.Multicast = EventUser, nil
	ev.Ack()
	if err := errors.Join(m.WaitAcked(context.Background()), id.Destroy(context.Background())); err != nil {
		t.Errorf("WaitAcked and Destroy after Ack = %v, want nil", err)
	}
}

// TestLeaveDuringMigrate ends a membership while its ID moves to another channel. Neither channel lists it then.
func TestLeaveDuringMigrate(t *testing.T) {
	h := &hooked{fakeKernel: newFakeKernel()}
	a, b := newEventChannel(ucma.New(h), &verbs.Host{}), newEventChannel(ucma.New(h), &verbs.Host{})
	id := newFakeID(t, a)
	stays, ends := mustJoin(t, id), mustJoin(t, id)
	h.write = func(cmd []byte) {
		if binary.NativeEndian.Uint32(cmd) == abi.RDMA_USER_CM_CMD_MIGRATE_ID {
			ends.forget()
		}
	}
	if err := id.Migrate(b); err != nil {
		t.Fatalf("id.Migrate: %v", err)
	}
	if a.find(ends.uid) != nil || b.find(ends.uid) != nil {
		t.Error("a channel lists the membership that has ended")
	}
	if b.find(stays.uid) != id || b.find(id.uid) != id {
		t.Error("the new channel does not list the ID and its other membership")
	}
	a.Close()
	b.Close()
}
