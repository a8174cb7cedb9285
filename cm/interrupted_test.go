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

// interrupting returns an established ID with a QP. The kernel refuses its next command cmd.
// During the command, an event comes and is fetched.
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

// TestAMistakeHidesNoEvent checks that an event during a failing call has the same effect as
// without the call.
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
		{"disconnect during ResolveAddr", StateEstablished, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR,
			func(id *ID) error { return id.ResolveAddr(Addr{}, addr, time.Second) }, EventDisconnected, StateDisconnected, verbs.QPErr},
		{"disconnect during Reject", StateEstablished, abi.RDMA_USER_CM_CMD_REJECT,
			func(id *ID) error { return id.Reject(nil) }, EventDisconnected, StateDisconnected, verbs.QPErr},
		{"rejection during Reject", StateResponded, abi.RDMA_USER_CM_CMD_REJECT,
			func(id *ID) error { return id.Reject(nil) }, EventRejected, StateFailed, verbs.QPErr},
		{"UNREACHABLE during Connect", StateEstablished, abi.RDMA_USER_CM_CMD_CONNECT,
			func(id *ID) error { return id.Connect(nil) }, EventUnreachable, StateEstablished, verbs.QPInit},
		{"removal during Listen", StateEstablished, abi.RDMA_USER_CM_CMD_LISTEN,
			func(id *ID) error { return id.Listen(0) }, EventDeviceRemoval, StateRemoved, verbs.QPInit},
	} {
		id := interrupting(t, tc.state, tc.cmd, tc.event)
		if err := tc.call(id); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: error = %v, want EINVAL", tc.name, err)
		}
		if id.State() != tc.want || id.qp.State() != tc.qp {
			t.Errorf("%s: state %q, QP in %v, want %q, %v", tc.name, id.State(), id.qp.State(), tc.want, tc.qp)
		}
		if len(id.pending) != 0 {
			t.Errorf("%s: %d pending commands, want 0", tc.name, len(id.pending))
		}
	}
}

// TestTwoMistakesAtOnce checks that after two failed commands the ID has its old state, in
// both orders of their ends.
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
			t.Errorf("first command ends first: %v, error = %v, state %q, want EINVAL, established", firstEnds, second, id.State())
		}
	}
}

// duringCommand returns an ID in a state. The kernel refuses its next command cmd. During the
// command, do is called.
func duringCommand(t *testing.T, state State, cmd uint32, do func(*ID)) *ID {
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

// TestAMistakeUndoesNoSuccess checks that a failing call does not undo another call that
// succeeds at the same time.
func TestAMistakeUndoesNoSuccess(t *testing.T) {
	id := duringCommand(t, StateRouteResolved, abi.RDMA_USER_CM_CMD_LISTEN, func(id *ID) {
		if err := id.Connect(&ConnParam{QPNum: 1}); err != nil || id.State() != StateConnecting {
			t.Errorf("Connect() = %v in state %q, want nil, connecting", err, id.State())
		}
	})
	var se *StateError
	if err := id.Listen(0); !errors.As(err, &se) || se.State != StateRouteResolved || id.State() != StateConnecting {
		t.Errorf("Listen() = %v in state %q, want a StateError, connecting", err, id.State())
	}
}

// TestAcceptAndRejectFail fails an Accept and a Reject that begins during it. The failed
// Accept has rejected the peer, so that the failed Reject has no state to restore.
func TestAcceptAndRejectFail(t *testing.T) {
	reject := &pendingTransition{after: StateFailed}
	id := duringCommand(t, StateRequested, abi.RDMA_USER_CM_CMD_ACCEPT, func(id *ID) {
		if err := begin(id, opReject, reject); err != nil {
			t.Errorf("begin: %v", err)
		}
	})
	if err := id.Accept(&ConnParam{QPNum: 1}); !errors.Is(err, syscall.EINVAL) || id.State() != StateFailed {
		t.Errorf("Accept() = %v in state %q, want EINVAL, failed", err, id.State())
	}
	if id.endTransition(reject, syscall.EINVAL); id.State() != StateFailed {
		t.Errorf("state after the failed Reject = %q, want failed", id.State())
	}
}

// TestOneEstablishes checks that only one of two Establish calls reaches the kernel. The
// kernel would reject the peer because of the second.
func TestOneEstablishes(t *testing.T) {
	id := duringCommand(t, StateResponded, abi.RDMA_USER_CM_CMD_ACCEPT, func(id *ID) {
		var se *StateError
		if err := id.Establish(); !errors.As(err, &se) || se.State != StateEstablished || id.State() != StateEstablished {
			t.Errorf("second Establish() = %v in state %q, want a StateError, established", err, id.State())
		}
	})
	if err := id.Establish(); !errors.Is(err, syscall.EINVAL) || id.State() != StateResponded {
		t.Errorf("Establish() = %v in state %q, want EINVAL, responded", err, id.State())
	}
}

// TestPeerOfTwoResolutions checks the remote address of two overlapping calls of ResolveAddr.
// During the first call, it is the destination of that call. After the first call has failed,
// it is the destination of the second call if the kernel has accepted that one, and unset
// otherwise.
func TestPeerOfTwoResolutions(t *testing.T) {
	a, b := mustAddr("10.8.0.2:8"), mustAddr("10.8.0.3:8")
	for _, taken := range []bool{true, false} {
		id := duringCommand(t, StateIdle, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, func(id *ID) {
			if id.RemoteAddr() != a {
				t.Errorf("RemoteAddr() during the command = %v, want %v", id.RemoteAddr(), a)
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
						t.Errorf("RemoteAddr() after two failures = %v, want none", id.RemoteAddr())
					}
				})
			}
		})
		want := Addr{}
		if taken {
			want = b
		}
		if err := id.ResolveAddr(Addr{}, a, time.Second); err == nil || id.RemoteAddr() != want {
			t.Errorf("ResolveAddr() = %v, RemoteAddr() = %v, want an error and %v", err, id.RemoteAddr(), want)
		}
	}
}
