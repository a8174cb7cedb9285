// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestErrorsOfDial checks how the examples react to the errors of Dial.
func TestErrorsOfDial(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	full := listenOn(t, cm.ListenConfig{Host: k.Host(), MaxConns: 1}, "10.0.0.1:7")
	go echo(full)
	picky := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:8")
	go func() {
		for {
			req, err := picky.Accept(context.Background())
			if err != nil {
				return
			}
			req.Reject([]byte("not you"))
		}
	}()
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	conn := ok(d.Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7"))(t)
	defer conn.Close()
	long := *d
	long.Param = &cm.ConnParam{PrivateData: make([]byte, 100)}
	ended, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		d       *cm.Dialer
		address string
		refusal cm.Refusal
		want    advice
	}{
		{"limit of the listener", within(t, 10*time.Second), d, "10.0.0.1:7", cm.RefusedMaxConns, tryLater},
		{"rejection by the program", within(t, 10*time.Second), d, "10.0.0.1:8", "", giveUp},
		{"no listener", within(t, 10*time.Second), d, "10.0.0.1:9", "", tryOthers},
		{"too much private data", within(t, 10*time.Second), &long, "10.0.0.1:8", "", giveUp},
		{"deadline", ended, d, "10.0.0.1:8", "", tryLater},
	} {
		_, err := tc.d.Dial(tc.ctx, "tcp", tc.address)
		if got := adviseDial(err); got != tc.want {
			t.Errorf("%s: adviseDial(%v) = %d, want %d", tc.name, err, got, tc.want)
		}
		if got := cm.RefusalOf(err); got != tc.refusal {
			t.Errorf("%s: RefusalOf(%v) = %q, want %q", tc.name, err, got, tc.refusal)
		}
		if got := len(fitPrivateData(err, make([]byte, 100))); tc.d == &long && got != 56 {
			t.Errorf("%s: fitPrivateData() = %d bytes, want 56", tc.name, got)
		}
	}
}

// TestSendWithoutReceive checks the errors of two Sends. If the peer posts no receive, the
// error has a hint and shows that the connection has ended. If the Send was not posted, the
// error shows that the connection still works.
func TestSendWithoutReceive(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
	go func() {
		req, err := ln.Accept(context.Background())
		if err != nil {
			return
		}
		if conn, err := req.Accept(context.Background(), nil, nil); err == nil {
			conn.Wait(context.Background())
			conn.Close()
		}
	}()
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	conn := ok(d.Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7"))(t)
	defer conn.Close()
	buf := ok(conn.Alloc(64, verbs.LocalWrite))(t)
	ended, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	err := conn.Send(ended, buf.SGE())
	if _, over := lost(err); over || !errors.Is(err, os.ErrDeadlineExceeded) || conn.Err() != nil {
		t.Errorf("Send with an ended context = %v, Err() = %v, want os.ErrDeadlineExceeded, nil", err, conn.Err())
	}
	err = conn.Send(within(t, 20*time.Millisecond), buf.SGE())
	if reason, over := lost(err); !over || reason != "a send took too long" || !errors.Is(err, context.DeadlineExceeded) || conn.Err() == nil {
		t.Errorf("Send without a receive = %v, Err() = %v, want both to end the connection", err, conn.Err())
	}
	if !strings.Contains(err.Error(), "has no receive posted") {
		t.Errorf("Send without a receive = %v, want the hint", err)
	}
}

// TestWrongKeyEndsThePeer checks that a wrong key moves the peer's QP to the error state at
// once, as on rxe.
func TestWrongKeyEndsThePeer(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
	received := make(chan error, 1)
	go func() {
		req, err := ln.Accept(context.Background())
		if err != nil {
			return
		}
		conn, err := req.Accept(context.Background(), nil, nil)
		if err != nil {
			return
		}
		buf, err := conn.Alloc(64, verbs.LocalWrite)
		if err == nil {
			err = conn.PostRecv(1, buf.SGE())
		}
		if err == nil {
			_, err = conn.WaitRecv(context.Background())
		}
		conn.Close()
		received <- err
	}()
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	conn := ok(d.Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7"))(t)
	defer conn.Close()
	buf := ok(conn.Alloc(64, verbs.LocalWrite))(t)
	var wc *verbs.WCError
	if err := conn.Write(within(t, 10*time.Second), buf.SGE(), verbs.RemoteMemory{Addr: 4096, Length: 64, RKey: 77}); !errors.As(err, &wc) || wc.Status != verbs.WCRemAccessErr {
		t.Errorf("Write with a wrong key = %v, want WCRemAccessErr", err)
	}
	var broken *cm.BrokenError
	if err := <-received; !errors.As(err, &broken) || broken.Op != "" {
		t.Errorf("WaitRecv of the peer = %v, want a *BrokenError", err)
	}
}

// TestErrorOfAnAbandonedAccept checks that the error of Accept names its operation if the
// dialer cancels.
func TestErrorOfAnAbandonedAccept(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	ctx, cancel := context.WithCancel(within(t, 10*time.Second))
	go d.Dial(ctx, "tcp", "10.0.0.1:7")
	req := ok(ln.Accept(within(t, 10*time.Second)))(t)
	accepted := make(chan error, 1)
	k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) { // the peer gets no answer
		if m.Type == cmtest.REP {
			cancel()
			return cmtest.Lost, 0
		}
		return cmtest.Arrives, 0
	})
	go func() {
		_, err := req.Accept(within(t, 10*time.Second), nil, nil)
		accepted <- err
	}()
	var op *cm.OpError
	if err := <-accepted; !errors.As(err, &op) || op.Op != "accept" || errors.Is(err, syscall.EINVAL) {
		t.Errorf("Accept = %v, want an error of accept", err)
	}
}

// TestTimeoutOfConnectError checks that a timed out command of this host is also a timeout for
// net.Error.
func TestTimeoutOfConnectError(t *testing.T) {
	failed := &cm.UnreachableError{Event: cm.EventConnectError, Status: -1, Err: &os.SyscallError{Syscall: "ioctl", Err: syscall.ETIMEDOUT}}
	if err := (&cm.OpError{Op: "connect", Err: failed}); !err.Timeout() {
		t.Errorf("Timeout of %v = false, want true", err)
	}
	failed.Err = syscall.ENOMEM
	if err := (&cm.OpError{Op: "connect", Err: failed}); err.Timeout() {
		t.Errorf("Timeout of %v = true, want false", err)
	}
}
