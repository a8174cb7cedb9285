// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestPeerDies kills a serving process in the middle of a transfer. The kernel disconnects for
// the process. On siw, a send may use the closed TCP connection before that. It completes with
// a local QP operation error, which then is the first failure of the connection
// (docs/reference/driver-faults.md).
func TestPeerDies(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	child, addr := spawn(t, "echo", at(hosts[0].IPv4, 0))
	conn, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", addr)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	buf, err := conn.PD().Alloc(8192, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	defer buf.Close()
	ctx := within(t, 20*time.Second)
	time.AfterFunc(100*time.Millisecond, func() { child.Process.Kill() })
	for rounds := 0; ; rounds++ {
		if err = conn.PostRecv(0, buf.Slice(4096, 4096)); err != nil {
			break
		}
		if err = conn.Send(ctx, buf.Slice(0, 4096)); err != nil {
			wantError(t, err, "send", nil, addr)
			break
		}
		wait := conn.WaitRecv
		if rounds == 0 {
			wait = func(ctx context.Context) (verbs.WC, error) { return waitRecvAnswer(ctx, conn) }
		}
		if _, err = wait(ctx); err != nil {
			if !errors.Is(err, io.EOF) {
				wantError(t, err, "receive", nil, addr)
			}
			break
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error after the death of the peer = %v, want an error before the deadline", err)
	}
	broken := err
	end, err := conn.Wait(within(t, 20*time.Second))
	if err != nil || end.Event != cm.EventDisconnected {
		t.Errorf("Wait() = %v, %v, want DISCONNECTED", end, err)
	}
	_, err = conn.WaitRecv(within(t, 20*time.Second))
	switch {
	case errors.Is(err, io.EOF):
	case vmtest.Driver() == "siw" && sendFailed(broken) && sendFailed(err):
		t.Logf("a send failed before the kernel disconnected, see docs/reference/driver-faults.md: %v", err)
	default:
		t.Errorf("WaitRecv after the end = %v, want io.EOF", err)
	}
}

// sendFailed reports whether a send has failed with the error of siw after TCP has lost the
// connection.
func sendFailed(err error) bool {
	wc, ok := errors.AsType[*verbs.WCError](err)
	return ok && wc.Status == verbs.WCLocQPOpErr
}

// TestDyingClientsDoNotDisturb kills clients of a listener that serves other clients.
func TestDyingClientsDoNotDisturb(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, at(hosts[0].IPv4, 0))
	go echo(ln)
	d := dialerOf(hosts[1].IPv4)
	steady, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer steady.Close()
	for range 3 {
		child, _ := spawn(t, "client", hosts[1].IPv4.String()+" "+ln.Addr().String())
		child.Process.Kill()
		child.Wait()
		say(t, steady, "undisturbed")
	}
	served(t, d, ln.Addr())
}
