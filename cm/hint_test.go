// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/verbs"
)

// TestResolvedWithoutADevice checks that an address that resolves to no device ends in
// ADDR_ERROR with ENODEV, like in librdmacm.
func TestResolvedWithoutADevice(t *testing.T) {
	ch, k := newFakeChannel(t)
	for to, words := range map[string]string{"10.0.0.1:1": "has no RDMA device", "127.0.0.1:1": "loopback"} {
		id := newFakeID(t, ch)
		if err := id.ResolveAddr(Addr{}, mustAddr(to), time.Second); err != nil {
			t.Fatalf("id.ResolveAddr: %v", err)
		}
		k.queue(id.kid, EventAddrResolved, 0)
		ev := mustNext(t, ch)
		err := ev.Err()
		if ev.Type != EventAddrError || ev.Status != -1 || id.State() != StateFailed || !errors.Is(err, syscall.ENODEV) ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("ResolveAddr(%s): Next() = %v, %v, want ADDR_ERROR with ENODEV and %q", to, ev, err, words)
		}
	}
	k.device = true
	ch.host.Drivers, ch.host.Kernel = fakeHost().Drivers, fakeHost().Kernel
	id := newFakeID(t, ch)
	if err := id.ResolveAddr(Addr{}, mustAddr("10.0.0.1:1"), time.Second); err != nil {
		t.Fatalf("id.ResolveAddr: %v", err)
	}
	k.queue(id.kid, EventAddrResolved, 0)
	if ev := mustNext(t, ch); ev.Type != EventAddrResolved || id.Device() == nil {
		t.Errorf("Next() with a device = %v, want ADDR_RESOLVED", ev)
	}
}

// TestErrorsSayWhere checks that an error has the addresses of the call, and the usual cause
// of its errno.
func TestErrorsSayWhere(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	local, remote := mustAddr("10.1.1.1:7"), mustAddr("10.2.2.2:8")
	bind := func() error { return id.Bind(local) }
	resolve := func() error { return id.ResolveAddr(local, remote, time.Second) }
	resolveTo := func(dst string) func() error {
		return func() error { return id.ResolveAddr(Addr{}, mustAddr(dst), time.Second) }
	}
	resolveFrom := func(src, dst string) func() error {
		return func() error { return id.ResolveAddr(mustAddr(src), mustAddr(dst), time.Second) }
	}
	for _, tc := range []struct {
		cmd   uint32
		errno syscall.Errno
		call  func() error
		words []string
	}{
		{abi.RDMA_USER_CM_CMD_BIND, syscall.EADDRINUSE, bind, []string{"bind 10.1.1.1:7", "rdma resource show cm_id"}},
		{abi.RDMA_USER_CM_CMD_BIND, syscall.EADDRNOTAVAIL, bind, []string{"bind 10.1.1.1:7", "no interface has 10.1.1.1"}},
		{abi.RDMA_USER_CM_CMD_BIND, syscall.EADDRNOTAVAIL, func() error { return id.Bind(mustAddr("[::]:7")) }, []string{"bind [::]:7", "another ID uses the port"}},
		{abi.RDMA_USER_CM_CMD_BIND, syscall.ENODEV, bind, []string{"bind 10.1.1.1:7", "with 10.1.1.1 has no RDMA device"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.EADDRNOTAVAIL, resolve, []string{"10.1.1.1:7->10.2.2.2:8", "no interface has 10.1.1.1"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.ENETUNREACH, resolve, []string{"10.1.1.1:7->10.2.2.2:8", "unreachable"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.EINVAL, resolveTo("127.0.0.1:8"), []string{"127.0.0.1:8", "no RDMA device has a loopback address"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.ENODEV, resolveTo("0.0.0.0:8"), []string{"treats 0.0.0.0 as a loopback address"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.ENETUNREACH, resolveTo("[::ffff:10.2.2.2]:8"), []string{"use 10.2.2.2"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.EINVAL, resolveFrom("127.0.0.1:0", "10.2.2.2:8"), []string{"127.0.0.1:0->10.2.2.2:8", "no RDMA device has a loopback address"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.EINVAL, resolveFrom("[::1]:0", "[fd00::2]:8"), []string{"no RDMA device has a loopback address"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.ENETUNREACH, resolveTo("[fe80::2]:8"), []string{"fe80::2 is link-local: name its interface, as in fe80::2%eth0"}},
		{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, syscall.EINVAL, resolveFrom("[fe80::1]:0", "[fe80::2%1]:8"), []string{"fe80::1 is link-local"}},
		{abi.RDMA_USER_CM_CMD_BIND, syscall.EINVAL, func() error { return id.Bind(mustAddr("[fe80::1]:7")) }, []string{"as in fe80::1%eth0"}},
		{abi.RDMA_USER_CM_CMD_BIND, notSupp, bind, []string{"errno 524 (ENOTSUPP: unsupported operation"}},
	} {
		k.fail = map[uint32]error{tc.cmd: tc.errno}
		err := tc.call()
		if !errors.Is(err, tc.errno) {
			t.Errorf("error = %v, want %v", err, tc.errno)
			continue
		}
		for _, w := range tc.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error = %q, want the text %q", err, w)
			}
		}
		if errors.Is(err, errors.ErrUnsupported) != (tc.errno == notSupp) {
			t.Errorf("errors.Is(%v, ErrUnsupported) = %v, want %v", err, errors.Is(err, errors.ErrUnsupported), tc.errno == notSupp)
		}
	}
}

// TestHintsOfEvents checks the hints of errors that the kernel reports only after it has begun
// to resolve, and of a peer that does not answer.
func TestHintsOfEvents(t *testing.T) {
	for _, tc := range []struct {
		src, dst, words string
		status          int32 // 0 if the context ends first
	}{
		{"[::1]:0", "[fd00::2]:8", "[::1]:0->[fd00::2]:8: the address did not resolve: no such device (no RDMA device has a loopback address", -int32(syscall.ENODEV)},
		{"", "[fe80::2]:8", "fe80::2 is link-local", -int32(syscall.EINVAL)},
		{"", "[fe80::2]:8", "deadline exceeded (fe80::2 is link-local", 0},
	} {
		ch, k := newFakeChannel(t)
		id := newFakeID(t, ch)
		d := &Dialer{}
		if tc.src != "" {
			d.LocalAddr = mustAddr(tc.src)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if tc.status != 0 {
			ctx = soonCtx(t)
			k.queue(id.kid, EventAddrError, tc.status)
		}
		err := d.resolve(ctx, id, mustAddr(tc.dst))
		cancel()
		if !strings.Contains(fmt.Sprint(err), tc.words) || tc.status != 0 && !errors.Is(err, syscall.Errno(-tc.status)) {
			t.Errorf("resolve() = %v\nwant the text %q", err, tc.words)
		}
	}
}

// TestHintsOfAnIDsEvents checks that the program gets the same hints if it fetches the events
// itself.
func TestHintsOfAnIDsEvents(t *testing.T) {
	const why = "no RDMA device has a loopback address"
	for _, tc := range []struct {
		src, dst string
		event    EventType
		status   syscall.Errno
		words    string
	}{
		{"127.0.0.1:0", "10.2.2.2:8", EventAddrError, syscall.EINVAL, "127.0.0.1:0->10.2.2.2:8: the address did not resolve: invalid argument (" + why},
		{"", "127.0.0.1:8", EventAddrError, syscall.ENODEV, why},
		{"", "0.0.0.0:8", EventRouteError, syscall.EINVAL, "treats 0.0.0.0 as a loopback address, and " + why},
		{"", "10.2.2.2:8", EventAddrError, syscall.ENODEV, ""},
		{"", "127.0.0.1:8", EventUnreachable, syscall.ETIMEDOUT, ""}, // siw has a device of lo, so that there may be a listener
	} {
		ch, k := newFakeChannel(t)
		id := newFakeID(t, ch)
		var src Addr
		if tc.src != "" {
			src = mustAddr(tc.src)
		}
		if err := id.ResolveAddr(src, mustAddr(tc.dst), time.Second); err != nil {
			t.Fatalf("id.ResolveAddr: %v", err)
		}
		k.queue(id.kid, tc.event, -int32(tc.status))
		ev, err := ch.Next(soonCtx(t))
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		err = ev.Err()
		ev.Ack()
		if !errors.Is(err, tc.status) || !strings.Contains(err.Error(), tc.words) || tc.words == "" && strings.Contains(err.Error(), "loopback") {
			t.Errorf("Err() = %v\nwant the text %q", err, tc.words)
		}
	}
}

// TestHintOfARoute checks that the error of ResolveRoute has the hint.
func TestHintOfARoute(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	if err := id.ResolveAddr(Addr{}, mustAddr("127.0.0.1:8"), time.Second); err != nil {
		t.Fatalf("id.ResolveAddr: %v", err)
	}
	id.state = StateAddrResolved
	k.fail[abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE] = syscall.ENODEV
	if err := id.ResolveRoute(time.Second); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "no RDMA device has a loopback address") {
		t.Errorf("ResolveRoute() = %v, want ENODEV with the hint", err)
	}
}

// TestNoHintOfAZone checks that there is no hint of a zone for addresses that have one or need
// none, and for other errors.
func TestNoHintOfAZone(t *testing.T) {
	for _, tc := range []struct {
		err    error
		remote string
	}{
		{syscall.EINVAL, "[fe80::2%1]:8"},
		{syscall.EINVAL, "[fd00::2]:8"},
		{syscall.EINVAL, "[::ffff:169.254.1.1]:8"},
		{syscall.EINVAL, "169.254.1.1:8"},
		{syscall.ENOMEM, "[fe80::2]:8"},
	} {
		if err := hint(tc.err, Addr{}, mustAddr(tc.remote)); strings.Contains(err.Error(), "link-local") {
			t.Errorf("hint(%v, %s) = %v, want no hint of a zone", tc.err, tc.remote, err)
		}
	}
}

// TestNoHintForAMistake checks that an error with another cause does not blame the address.
func TestNoHintForAMistake(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.fail[abi.RDMA_USER_CM_CMD_RESOLVE_ADDR] = syscall.EINVAL
	id.state = StateEstablished
	var se *StateError
	if err := id.ResolveAddr(Addr{}, mustAddr("127.0.0.1:8"), time.Second); !errors.As(err, &se) || strings.Contains(err.Error(), "loopback") {
		t.Errorf("ResolveAddr() = %v, want a StateError without a hint", err)
	}
	id.state, id.local = StateBound, mustAddr("[fd00::1]:7")
	var fe *ArgumentError
	if err := id.ResolveAddr(Addr{}, mustAddr("127.0.0.1:8"), time.Second); !errors.As(err, &fe) || strings.Contains(err.Error(), "loopback") {
		t.Errorf("ResolveAddr() = %v, want an ArgumentError without a hint", err)
	}
}

const notSupp = syscall.Errno(524) // ENOTSUPP, which package syscall does not define

// TestDialLoopback checks that a loopback address does not resolve. The kernel would resolve
// it with the device of LocalAddr, and no peer would ever answer.
func TestDialLoopback(t *testing.T) {
	for _, dst := range []string{"127.0.0.1:7", "127.3.2.1:7", "[::1]:7", "0.0.0.0:7", "[::]:7", "10.8.0.1:7"} {
		ch, k := newFakeChannel(t)
		k.device = true
		ch.host.Drivers, ch.host.Kernel = fakeHost().Drivers, fakeHost().Kernel
		id := newFakeID(t, ch)
		to := mustAddr(dst)
		k.queue(id.kid, EventAddrResolved, 0)
		k.queue(id.kid, EventRouteResolved, 0)
		err := new(Dialer).resolve(context.Background(), id, to)
		if !toLoopback(to) {
			if err != nil {
				t.Errorf("resolve(%s) = %v, want nil", dst, err)
			}
			continue
		}
		if oe := new(OpError); !errors.As(err, &oe) || oe.Op != opResolve || oe.Remote != to || !errors.Is(err, syscall.ENODEV) ||
			!strings.Contains(err.Error(), "no RDMA device has a loopback address") {
			t.Errorf("resolve(%s) = %v, want ENODEV with the hint", dst, err)
		}
	}
}

// TestSilenceOfThisHost checks that only an unanswered request to this host has the hint.
// Other errors have none.
func TestSilenceOfThisHost(t *testing.T) {
	here := mustAddr("127.0.0.1:7") // every host has this address
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	deadline, unreachable := ctx.Err(), error(&UnreachableError{Event: EventUnreachable, Status: -int(syscall.ETIMEDOUT)})
	for _, tc := range []struct {
		remote Addr
		err    error
		hinted bool
	}{
		{here, deadline, true},
		{here, unreachable, true},
		{here, context.Canceled, false},
		{here, &RejectError{Status: RejectConsumer}, false},
		{mustAddr("203.0.113.1:7"), deadline, false},
		{mustAddr("10.8.1.2:8"), deadline, false}, // the connection is to the host itself
		{Addr{}, deadline, false},
		{AddrFromGID(verbs.GID{1}, PortSpaceTCP, 7), deadline, false},
	} {
		err := hintOfSilence(&OpError{Op: opConnect, Local: mustAddr("10.8.1.2:7"), Remote: tc.remote, Err: tc.err}, "")
		if hinted := strings.Contains(err.Error(), "127.0.0.1 is the address of lo on this host: is a listener running there, has lo an RDMA device, and can 10.8.1.2 reach it?"); hinted != tc.hinted || !errors.Is(err, tc.err) {
			t.Errorf("hintOfSilence(%v to %v) = %v, want the hint: %v", tc.err, tc.remote, err, tc.hinted)
		}
		if ne, ok := err.(*OpError); !ok || tc.hinted && !ne.Timeout() {
			t.Errorf("error %v is no timeout", err)
		}
	}
	if hintOfSilence(nil, "") != nil {
		t.Error("hintOfSilence(nil) != nil, want nil")
	}
}

// TestMissingArgumentIsEINVAL checks that a missing argument is an OpError with EINVAL.
func TestMissingArgumentIsEINVAL(t *testing.T) {
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	_, joining := id.JoinMulticast(Addr{}, FullMember)
	_, listening := new(ListenConfig).ListenAddr(PortSpaceTCP, Addr{})
	_, resolving := new(Dialer).ResolveAddr(context.Background(), PortSpaceTCP, Addr{})
	id.dev = &verbs.Device{}
	for name, err := range map[string]error{
		"SetLocalECE": id.SetLocalECE(verbs.ECE{}),
		"SetIBPath":   id.SetIBPath(nil),
		"UseQP":       id.UseQP(nil),
		"Bind":        id.Bind(Addr{}),
		"ResolveAddr": id.ResolveAddr(Addr{}, Addr{}, time.Second),
		"Join":        joining,
		"Listen":      listening,
		"Resolve":     resolving,
	} {
		if oe := new(OpError); !errors.Is(err, syscall.EINVAL) || !errors.As(err, &oe) {
			t.Errorf("%s = %v, want an OpError with EINVAL", name, err)
		}
	}
	id.dev = nil
}

// TestListenOnLoopback checks that Listen refuses a loopback address, because the kernel would
// listen on every device.
func TestListenOnLoopback(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:7471", "[::1]:7471", "127.3.2.1:0", "localhost:7471"} {
		ln, err := Listen(context.Background(), "tcp", addr)
		if ln != nil || !errors.Is(err, syscall.EADDRNOTAVAIL) || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("Listen(%s) = %v, want EADDRNOTAVAIL with the hint", addr, err)
		}
	}
}

// TestOpenErrorsSayWhatFor checks the errors without a connection manager, which are common on
// the machines of developers.
func TestOpenErrorsSayWhatFor(t *testing.T) {
	if ch, err := NewEventChannel(nil); err == nil {
		ch.Close() // this machine has a connection manager
		return
	}
	_, dialing := Dial(context.Background(), "tcp", "10.8.0.1:7471")
	_, listening := Listen(context.Background(), "tcp", "10.8.0.2:7471")
	for where, err := range map[string]error{"resolve 10.8.0.1:7471": dialing, "listen 10.8.0.2:7471": listening} {
		if err == nil || !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), "rdmadoctor") {
			t.Errorf("error = %v, want %s and rdmadoctor", err, where)
		}
	}
}

func TestTexts(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	if got, want := id.String(), fmt.Sprintf("cm_id %d (kernel ID %d)", id.uid, id.kid); got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	for _, tc := range []struct {
		status int
		data   string
		want   string
	}{
		{RejectConsumer, "", "rejected by the application (reason 28)"},
		{RejectInvalidServiceID, "", "rejected: no listener on that port (reason 8)"},
		{RejectConsumer, "full up" + strings.Repeat("\x00", 141), `rejected by the application (reason 28): "full up"`},
		{RejectConsumer, "\x1b[2J\xffü\n", `rejected by the application (reason 28): "\x1b[2J\xff\u00fc\n"`},
		{RejectConsumer, strings.Repeat("a", 148), `rejected by the application (reason 28): "` + strings.Repeat("a", 80) + `"...`},
		{-int(syscall.ECONNRESET), "no", `rejected by the peer (connection reset by peer): "no"`},
	} {
		err := &RejectError{Status: tc.status, PrivateData: []byte(tc.data)}
		if got := err.Error(); got != tc.want {
			t.Errorf("Error() of status %d with %q = %q, want %q", tc.status, tc.data, got, tc.want)
		}
	}
	refused := &UnreachableError{Event: EventUnreachable, Status: SIDRRejected, PrivateData: []byte("go away\x00")}
	if got, want := refused.Error(), `rejected by the application (SIDR status 2): "go away"`; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, want := range []string{"not acknowledged: one RDMA_CM_EVENT_ADDR_CHANGE:", "not acknowledged: 2 events, RDMA_CM_EVENT_ADDR_CHANGE among them:"} {
		k.queue(id.kid, EventAddrChange, 0)
		mustNext(t, ch)
		if err := id.waitAcked(ended, opDestroy, &id.acks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("waitAcked() = %v, want %q", err, want)
		}
	}
}
