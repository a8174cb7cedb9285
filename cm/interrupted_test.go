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
		t.Fatal(err)
	}
	pd, err := id.dev.DefaultPD()
	if err != nil {
		t.Fatal(err)
	}
	if id.qp, err = pd.CreateQP(verbs.QPConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := id.qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|attrsOf[verbs.QPInit]); err != nil {
		t.Fatal(err)
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
		if len(id.tries) != 0 {
			t.Errorf("%s: %d commands run", tc.name, len(id.tries))
		}
	}
}

// TestTwoMistakesAtOnce: whichever ends first, the ID is in the end what it was.
func TestTwoMistakesAtOnce(t *testing.T) {
	id := interrupting(t, StateEstablished, abi.RDMA_USER_CM_CMD_LISTEN, EventAddrChange)
	listening, done := make(chan struct{}), make(chan struct{})
	outer := make(chan error, 1)
	go func() {
		outer <- id.commandIn(opListen, StateListening, func(*ucma.File, uint32) error {
			close(listening)
			<-done
			return syscall.EINVAL
		})
	}()
	<-listening
	err := id.commandIn(opResolve, StateAddrQuery, func(*ucma.File, uint32) error {
		close(done)
		return errors.Join(<-outer, syscall.EINVAL)
	})
	if !errors.Is(err, syscall.EINVAL) || id.State() != StateEstablished {
		t.Errorf("%v, the ID is %q", err, id.State())
	}
}
