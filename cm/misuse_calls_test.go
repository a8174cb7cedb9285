// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// refusing is a kernel that refuses every command on its IDs.
type refusing struct{ *fakeKernel }

func (k refusing) Write(b []byte) error {
	err := k.fakeKernel.Write(b)
	switch cmd := binary.NativeEndian.Uint32(b); {
	case err != nil, cmd == abi.RDMA_USER_CM_CMD_CREATE_ID, cmd == abi.RDMA_USER_CM_CMD_DESTROY_ID:
		return err
	}
	return syscall.EINVAL
}

// TestEveryCallInEveryState makes every call in every state. The kernel refuses all of them.
// If the call is impossible in the state, the error names the state and the possible ones, and
// the ID's state stays unchanged. If the call is possible, the error has another cause and
// names no state.
func TestEveryCallInEveryState(t *testing.T) {
	connected := []State{StateResponded, StateRequested, StateAccepting, StateEstablished}
	local, remote := mustAddr("10.8.0.1:7"), mustAddr("10.8.0.2:8")
	attrs := func(s verbs.QPState) func(*ID) error {
		return func(id *ID) error { _, _, err := id.InitQPAttr(s); return err }
	}
	for _, c := range []struct {
		name string
		call func(*ID) error
		fits []State
	}{
		{"Bind", func(id *ID) error { return id.Bind(local) }, []State{StateIdle}},
		{"ResolveAddr", func(id *ID) error { return id.ResolveAddr(Addr{}, remote, time.Second) }, []State{StateIdle, StateBound}},
		{"ResolveRoute", func(id *ID) error { return id.ResolveRoute(time.Second) }, []State{StateAddrResolved, StateServiceResolved}},
		{"SetIBPath", func(id *ID) error { return id.SetIBPath([]Path{{}}) }, []State{StateAddrResolved}},
		{"ResolveIBService", func(id *ID) error { return id.ResolveIBService(1) }, []State{StateBound}},
		{"Listen", func(id *ID) error { return id.Listen(0) }, []State{StateIdle, StateBound}},
		{"Connect", func(id *ID) error { return id.Connect(&ConnParam{QPNum: 1}) }, []State{StateRouteResolved}},
		{"Accept", func(id *ID) error { return id.Accept(&ConnParam{QPNum: 1}) }, []State{StateRequested}},
		{"Reject", func(id *ID) error { return id.Reject(nil) }, []State{StateRequested, StateResponded}},
		{"RejectECE", func(id *ID) error { return id.RejectECE(nil) }, []State{StateRequested, StateResponded}},
		{"Establish", func(id *ID) error { return id.Establish() }, []State{StateResponded}},
		{"Notify", func(id *ID) error { return id.Notify(CommEst) }, []State{StateAccepting}},
		{"Notify of a migrated path", func(id *ID) error { return id.Notify(PathMig) }, []State{StateEstablished}},
		{"Disconnect", func(id *ID) error { return id.Disconnect() }, []State{StateResponded, StateAccepting, StateEstablished, StateDisconnected}},
		{"JoinMulticast", func(id *ID) error { _, err := id.JoinMulticast(mustAddr("239.1.1.1:0"), FullMember); return err }, []State{StateBound, StateAddrResolved}},
		{"SetReuseAddr", func(id *ID) error { return id.SetReuseAddr(true) }, []State{StateIdle, StateBound}},
		{"SetReuseAddr off", func(id *ID) error { return id.SetReuseAddr(false) }, []State{StateIdle}},
		{"SetAFOnly", func(id *ID) error { return id.SetAFOnly(true) }, []State{StateIdle, StateBound}},
		{"InitQPAttr INIT", attrs(verbs.QPInit), append([]State{StateBound, StateAddrResolved, StateRouteResolved, StateConnecting}, connected...)},
		{"InitQPAttr RTR", attrs(verbs.QPRTR), connected},
		{"InitQPAttr RTS", attrs(verbs.QPRTS), connected},
	} {
		for state := range State(numStates) {
			ch := newEventChannel(ucma.New(refusing{newFakeKernel()}), &verbs.Host{})
			id := newFakeID(t, ch)
			var err error
			if id.dev, err = fakeHost().Open("rxe0"); err != nil {
				t.Fatalf("Open: %v", err)
			}
			id.state, id.passive = state, true
			err = c.call(id)
			var se *StateError
			var oe *OpError
			var removed *verbs.DeviceRemovedError
			fits := slices.Contains(c.fits, state)
			switch {
			case state == StateRemoved:
				if !errors.As(err, &removed) || removed.Device != "rxe0" {
					t.Errorf("%s on a removed device = %v, want a DeviceRemovedError", c.name, err)
				}
			case !errors.Is(err, syscall.EINVAL) || !errors.As(err, &oe):
				t.Errorf("%s in %q = %v, want an OpError with EINVAL", c.name, state, err)
			case errors.As(err, &se) == fits:
				t.Errorf("%s in %q = %v (%T), want a StateError: %v", c.name, state, err, oe.Err, !fits)
			case !fits && (se.State != state || !sameStates(se.Want, c.fits) || !strings.Contains(err.Error(), `"`+state.String()+`"`)):
				t.Errorf("%s in %q = %v, want the state and the possible states %v", c.name, state, err, c.fits)
			}
			id.Close()
			if err := c.call(id); !errors.Is(err, net.ErrClosed) || !errors.As(err, &oe) {
				t.Errorf("%s of a closed ID = %v, want net.ErrClosed", c.name, err)
			}
			// A failed Accept has rejected the peer.
			if got := id.State(); got != state && !(c.name == "Accept" && fits && got == StateFailed) {
				t.Errorf("state after %s in %q = %q, want no change", c.name, state, got)
			}
			ch.Close()
		}
	}
}

func sameStates(a, b []State) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// TestEstablishIsForIDsWithoutAQP checks that Establish refuses an ID with a QP, as in
// librdmacm.
func TestEstablishIsForIDsWithoutAQP(t *testing.T) {
	ep, _ := fakeEndpoint(t, StateResponded)
	pd, err := ep.id.dev.DefaultPD()
	if err != nil {
		t.Fatalf("DefaultPD: %v", err)
	}
	if ep.id.qp, err = pd.CreateQP(verbs.QPConfig{}); err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	if err := ep.id.Establish(); !errors.Is(err, errHasQP) || ep.id.State() != StateResponded {
		t.Errorf("Establish() with a QP = %v in state %v, want %v, responded", err, ep.id.State(), errHasQP)
	}
	ep.id.state = StateRemoved
	var removed *verbs.DeviceRemovedError
	if err := ep.id.Establish(); !errors.As(err, &removed) {
		t.Errorf("Establish() on a removed device = %v, want a DeviceRemovedError", err)
	}
	ep.id.Close()
	if err := ep.id.Establish(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Establish() of a closed ID = %v, want net.ErrClosed", err)
	}
	ep.id.qp.Close()
}

// TestEstablishBeforeTheResponse checks that Establish before the response sends no command.
// The kernel would reject the peer and report no event.
func TestEstablishBeforeTheResponse(t *testing.T) {
	h := &hooked{fakeKernel: newFakeKernel()}
	ch := newEventChannel(ucma.New(h), &verbs.Host{})
	defer ch.Close()
	id := newFakeID(t, ch)
	h.write = func(b []byte) {
		if binary.NativeEndian.Uint32(b) == abi.RDMA_USER_CM_CMD_ACCEPT {
			t.Errorf("ACCEPT was sent in state %q", id.State())
		}
	}
	for _, state := range []State{StateConnecting, StateRequested, StateAccepting, StateEstablished} {
		id.state = state
		var se *StateError
		if err := id.Establish(); !errors.As(err, &se) || se.State != state || id.State() != state {
			t.Errorf("Establish() in %q = %v in state %q, want a StateError and no change", state, err, id.State())
		}
	}
}

// TestCallsBeforeThereIsADevice checks that calls on an ID without a device also name the
// states in which they are possible.
func TestCallsBeforeThereIsADevice(t *testing.T) {
	ch, _ := newFakeChannel(t)
	for name, call := range map[string]func(*ID) error{
		"Connect":   func(id *ID) error { return id.Connect(&ConnParam{QPNum: 1}) },
		"CreateQP":  func(id *ID) error { return id.CreateQP(nil, verbs.QPConfig{}) },
		"UseQP":     func(id *ID) error { return id.UseQP(&verbs.QP{}) },
		"CreateSRQ": func(id *ID) error { return id.CreateSRQ(nil, verbs.SRQConfig{}) },
	} {
		id := newFakeID(t, ch)
		var se *StateError
		if err := call(id); !errors.As(err, &se) || se.State != StateIdle || len(se.Want) == 0 || !errors.Is(err, errNoDevice) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s without a device = %v, want a StateError with %v", name, err, errNoDevice)
		}
		// The device may be removed before the event with its name has been fetched.
		id.state = StateRemoved
		var removed *verbs.DeviceRemovedError
		if err := call(id); !errors.As(err, &removed) {
			t.Errorf("%s on a removed device = %v, want a DeviceRemovedError", name, err)
		}
	}
}

// TestQPOfAnotherDevice checks that UseQP refuses a QP of another device, or of another
// opening of the device.
func TestQPOfAnotherDevice(t *testing.T) {
	ep, _ := fakeEndpoint(t, StateRouteResolved)
	other := fakeHost()
	for _, tc := range []struct {
		host *verbs.Host
		name string
		says string
	}{{ep.ch.host, "rxe1", "device is rxe1: the ID has device rxe0"}, {other, "rxe0", "another opening of that device"}} {
		dev, err := tc.host.Open(tc.name)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		pd, err := dev.DefaultPD()
		if err != nil {
			t.Fatalf("DefaultPD: %v", err)
		}
		qp, err := pd.CreateQP(verbs.QPConfig{})
		if err != nil {
			t.Fatalf("CreateQP: %v", err)
		}
		var wrong *ArgumentError
		err = ep.id.UseQP(qp)
		if !errors.As(err, &wrong) || wrong.Value != tc.name || !strings.Contains(wrong.Reason, "the ID has ") || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("UseQP of a QP on %s = %v, want an ArgumentError with %q", tc.name, err, tc.says)
		}
		if ep.id.QP() != nil {
			t.Error("QP() != nil after a failed UseQP")
		}
		qp.Close()
		dev.Close()
	}
}

// TestNotifyOfNothing checks that Notify names an unknown event, and does not report a
// StateError for it.
func TestNotifyOfNothing(t *testing.T) {
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	var se *StateError
	if err := id.Notify(99); !errors.Is(err, syscall.EINVAL) || errors.As(err, &se) || !strings.Contains(err.Error(), "event 99") {
		t.Errorf("Notify(99) = %v, want EINVAL with event 99", err)
	}
}
