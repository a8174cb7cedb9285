// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// interrupting is an established ID with a QP, whose next command is one that the
// kernel refuses, and during which the kernel reports an event that somebody fetches.
func interrupting(t *testing.T, state State, cmd uint32, typ EventType) *ID {
	t.Helper()
	k, host := newFakeKernel(), fakeHost()
	k.fail[cmd] = syscall.EINVAL
	h := &hooked{fakeKernel: k}
	ch := newEventChannel(ucma.New(h), host)
	t.Cleanup(func() { ch.Close() })
	id := newFakeID(t, ch)
	var err error
	if id.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	pd, err := id.dev.DefaultPD()
	if err != nil {
		t.Fatalf("id.dev.DefaultPD: %v", err)
	}
	if id.qp, err = pd.CreateQP(verbs.QPConfig{}); err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	if err := id.qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|attrsOf[verbs.QPInit]); err != nil {
		t.Fatalf("id.qp.Modify: %v", err)
	}
	id.ownQP, id.state = true, state
	h.write = func(b []byte) {
		if binary.NativeEndian.Uint32(b) == cmd {
			k.queue(id.kid, typ, 0)
			mustNext(t, ch).Ack()
		}
	}
	return id
}

// TestAMistakeHidesNoEvent: what comes while a call runs that fails is as if there had
// been no call.
func TestAMistakeHidesNoEvent(t *testing.T) {
	addr := mustAddr("10.8.0.2:8")
	for _, tc := range []struct {
		name  string
		state State
		cmd   uint32
		call  func(*ID) error
		event EventType
		want  State
		qp    verbs.QPState
	}{
		{"the peer disconnects during ResolveAddr", StateEstablished, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR,
			func(id *ID) error { return id.ResolveAddr(Addr{}, addr, time.Second) }, EventDisconnected, StateDisconnected, verbs.QPErr},
		{"the peer disconnects during Reject", StateEstablished, abi.RDMA_USER_CM_CMD_REJECT,
			func(id *ID) error { return id.Reject(nil) }, EventDisconnected, StateDisconnected, verbs.QPErr},
		{"the peer refuses during Reject", StateResponded, abi.RDMA_USER_CM_CMD_REJECT,
			func(id *ID) error { return id.Reject(nil) }, EventRejected, StateFailed, verbs.QPErr},
		{"a neighbour moves during Connect", StateEstablished, abi.RDMA_USER_CM_CMD_CONNECT,
			func(id *ID) error { return id.Connect(nil) }, EventUnreachable, StateEstablished, verbs.QPInit},
		{"the device goes during Listen", StateEstablished, abi.RDMA_USER_CM_CMD_LISTEN,
			func(id *ID) error { return id.Listen(0) }, EventDeviceRemoval, StateRemoved, verbs.QPInit},
	} {
		id := interrupting(t, tc.state, tc.cmd, tc.event)
		if err := tc.call(id); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if id.State() != tc.want || id.qp.State() != tc.qp {
			t.Errorf("%s: the ID is %q, its QP in %v", tc.name, id.State(), id.qp.State())
		}
		if len(id.pending) != 0 {
			t.Errorf("%s: %d commands run", tc.name, len(id.pending))
		}
	}
}

// TestTwoMistakesAtOnce: whichever ends first, the ID is in the end what it was.
func TestTwoMistakesAtOnce(t *testing.T) {
	for _, firstEnds := range []bool{true, false} {
		id := interrupting(t, StateEstablished, abi.RDMA_USER_CM_CMD_LISTEN, EventAddrChange)
		begun, done := make(chan struct{}), make(chan struct{})
		first := make(chan error, 1)
		go func() {
			first <- id.run(opListen, to(StateListening), func(*ucma.File, uint32) error {
				close(begun)
				<-done
				return syscall.EINVAL
			})
		}()
		<-begun
		second := id.run(opResolve, to(StateAddrQuery), func(*ucma.File, uint32) error {
			if firstEnds {
				close(done)
				return errors.Join(<-first, syscall.EINVAL)
			}
			return syscall.EINVAL
		})
		if !firstEnds {
			close(done)
			second = errors.Join(<-first, second)
		}
		if !errors.Is(second, syscall.EINVAL) || id.State() != StateEstablished || len(id.pending) != 0 {
			t.Errorf("the first ends first %v: %v, the ID is %q", firstEnds, second, id.State())
		}
	}
}

// meanwhile is an ID in a state, during whose next command cmd, which the kernel
// refuses, something else is done.
func meanwhile(t *testing.T, state State, cmd uint32, do func(*ID)) *ID {
	t.Helper()
	h := &hooked{fakeKernel: newFakeKernel()}
	ch := newEventChannel(ucma.New(h), fakeHost())
	t.Cleanup(func() { ch.Close() })
	id := newFakeID(t, ch)
	var err error
	if id.dev, err = ch.host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	id.state, id.passive = state, true
	h.write = func(b []byte) {
		if binary.NativeEndian.Uint32(b) == cmd {
			h.write = nil
			do(id)
			h.fail[cmd] = syscall.EINVAL
		}
	}
	return id
}

// TestAMistakeUndoesNoSuccess: of a call that the kernel takes while it has not yet
// refused another.
func TestAMistakeUndoesNoSuccess(t *testing.T) {
	id := meanwhile(t, StateRouteResolved, abi.RDMA_USER_CM_CMD_LISTEN, func(id *ID) {
		if err := id.Connect(&ConnParam{QPNum: 1}); err != nil || id.State() != StateConnecting {
			t.Errorf("%v, the ID is %q", err, id.State())
		}
	})
	var se *StateError
	if err := id.Listen(0); !errors.As(err, &se) || se.State != StateRouteResolved || id.State() != StateConnecting {
		t.Errorf("%v, the ID is %q", err, id.State())
	}
}

// TestAcceptAndRejectFail: the one has refused the peer, and the other has nothing to
// take back.
func TestAcceptAndRejectFail(t *testing.T) {
	reject := &pendingTransition{after: StateFailed}
	id := meanwhile(t, StateRequested, abi.RDMA_USER_CM_CMD_ACCEPT, func(id *ID) {
		if err := begin(id, opReject, reject); err != nil {
			t.Errorf("begin: %v", err)
		}
	})
	if err := id.Accept(&ConnParam{QPNum: 1}); !errors.Is(err, syscall.EINVAL) || id.State() != StateFailed {
		t.Errorf("%v, the ID is %q", err, id.State())
	}
	if id.endTransition(reject, syscall.EINVAL); id.State() != StateFailed {
		t.Errorf("the ID is %q in the end", id.State())
	}
}

// TestOneEstablishes: of two calls the kernel gets one, because it would refuse the peer
// on account of the other.
func TestOneEstablishes(t *testing.T) {
	id := meanwhile(t, StateResponded, abi.RDMA_USER_CM_CMD_ACCEPT, func(id *ID) {
		var se *StateError
		if err := id.Establish(); !errors.As(err, &se) || se.State != StateEstablished || id.State() != StateEstablished {
			t.Errorf("%v, the ID is %q", err, id.State())
		}
	})
	if err := id.Establish(); !errors.Is(err, syscall.EINVAL) || id.State() != StateResponded {
		t.Errorf("%v, the ID is %q", err, id.State())
	}
}

// TestPeerOfTwoResolutions: the ID has the peer of the one that has begun, and no other
// if the kernel takes none.
func TestPeerOfTwoResolutions(t *testing.T) {
	a, b := mustAddr("10.8.0.2:8"), mustAddr("10.8.0.3:8")
	for _, taken := range []bool{true, false} {
		id := meanwhile(t, StateIdle, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, func(id *ID) {
			if id.RemoteAddr() != a {
				t.Errorf("the peer is %v", id.RemoteAddr())
			}
			second := &pendingTransition{after: StateAddrQuery, to: b}
			if err := begin(id, opResolve, second); err != nil {
				t.Errorf("begin: %v", err)
			}
			if taken {
				id.endTransition(second, nil)
			} else {
				t.Cleanup(func() {
					if id.endTransition(second, syscall.EINVAL); id.RemoteAddr().IsValid() {
						t.Errorf("in the end the peer is %v", id.RemoteAddr())
					}
				})
			}
		})
		want := Addr{}
		if taken {
			want = b
		}
		if err := id.ResolveAddr(Addr{}, a, time.Second); err == nil || id.RemoteAddr() != want {
			t.Errorf("%v, the peer is %v, want %v", err, id.RemoteAddr(), want)
		}
	}
}
