// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestProbe checks that a reachable peer answers although its program does nothing. The end of
// the context or the QP itself detects an unreachable peer.
func TestProbe(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, at(hosts[0].IPv4, 0))
	go echo(ln)
	dial := func(ackTimeout time.Duration) *cm.Conn {
		t.Helper()
		d := dialerOf(hosts[1].IPv4)
		d.AckTimeout = ackTimeout
		d.Param = &cm.ConnParam{RetryCount: 2, RNRRetryCount: 7}
		conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.Probe(within(t, 10*time.Second)); err != nil {
			t.Fatalf("conn.Probe: %v", err)
		}
		return conn
	}
	first, second := dial(4*time.Millisecond), dial(4*time.Second)
	undo := hosts[0].Lose(t)

	var wcErr *verbs.WCError
	if err := first.Probe(within(t, 20*time.Second)); !errors.As(err, &wcErr) || wcErr.Status != verbs.WCRetryExcErr {
		t.Errorf("Probe of an unreachable peer = %v, want WCRetryExcErr", err)
	}
	var given *cm.BrokenError
	err := error(nil)
	for !errors.As(err, &given) { // the context may end before the request is posted, which breaks nothing
		soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		err = second.Probe(soon)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Probe of an unreachable peer = %v, want %v", err, context.DeadlineExceeded)
		}
	}
	if err := second.Probe(context.Background()); !errors.As(err, &given) || given.Op != "probe" || !given.Cancelled {
		t.Errorf("Probe after a cancelled Probe = %v, want a BrokenError of the probe", err)
	}
	undo()
}
