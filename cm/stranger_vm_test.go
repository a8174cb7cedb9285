// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMClientsDoNotShareMemory runs TestClientsDoNotShareMemory on a real kernel.
func TestVMClientsDoNotShareMemory(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	d := dialerOf(hosts[1].IPv4)
	got, err := secretRead(t, listen(t, at(hosts[0].IPv4, 0)), d)
	wantDenied(t, got, err)
	shared := listenOn(t, cm.ListenConfig{PD: (*verbs.Device).DefaultPD}, at(hosts[0].IPv4, 0))
	if got, err := secretRead(t, shared, d); err != nil || got != "secret of client 0" {
		t.Errorf("READ with a shared PD = %q, %v, want the secret", got, err)
	}
}

// TestVMKeyEndsWithTheRequest runs TestKeyEndsWithTheRequest on a real kernel.
func TestVMKeyEndsWithTheRequest(t *testing.T) {
	ln, d := ends(t)
	keyEnds(t, ln, d)
}

// TestVMRefusedByLimit checks that a refused peer gets the reason, and that the listener
// serves other peers. After the end of a connection it accepts another one.
func TestVMRefusedByLimit(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listenOn(t, cm.ListenConfig{MaxConnsPerAddr: 1}, "0.0.0.0:0")
	go echo(ln)
	to := at(hosts[0].IPv4, ln.Addr().Port())
	d := dialerOf(hosts[1].IPv4)
	first, err := d.Dial(within(t, 10*time.Second), "tcp", to)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer first.Close()
	say(t, first, "hello")
	for range 5 {
		_, err = d.Dial(within(t, 10*time.Second), "tcp", to)
		if !errors.Is(err, syscall.ECONNREFUSED) || cm.RefusalOf(err) != cm.RefusedMaxConnsPerAddr {
			t.Errorf("Dial over the limit = %v, want a rejection with the reason", err)
		}
	}
	if got := ln.Refused(); got != 5 {
		t.Errorf("Refused() = %d, want 5", got)
	}
	served(t, dialerOf(hosts[0].IPv4), mustParse(at(hosts[1].IPv4, ln.Addr().Port())))
	say(t, first, "still there")
	if _, err := first.Disconnect(within(t, 10*time.Second)); err != nil {
		t.Errorf("Disconnect() = %v, want nil", err)
	}
	// The server closes its side a moment later.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := d.Dial(within(t, 10*time.Second), "tcp", to)
		if err == nil {
			conn.Close()
			break
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(end) {
			t.Fatalf("Dial after the first connection has ended = %v, want nil", err)
		}
	}
}

// TestVMHandshakeTimeout checks that a request without an answer of the server is refused with
// a reason.
func TestVMHandshakeTimeout(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listenOn(t, cm.ListenConfig{HandshakeTimeout: 200 * time.Millisecond}, at(hosts[0].IPv4, 0))
	dialed := make(chan error, 1)
	go func() {
		_, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		dialed <- err
	}()
	req, err := ln.Accept(within(t, 10*time.Second))
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if err := <-dialed; !errors.Is(err, syscall.ECONNREFUSED) || cm.RefusalOf(err) != cm.RefusedHandshakeTimeout {
		t.Errorf("Dial without an answer = %v, want a rejection with the reason", err)
	}
	if _, err := req.Accept(within(t, 10*time.Second), nil, nil); err == nil || !err.(*cm.OpError).Timeout() || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Accept of a late request = %v, want a timeout", err)
	}
}

// TestVMIdleListenerReleasesItsDevice checks that an idle listener with an open device does
// not delay the device's removal.
func TestVMIdleListenerReleasesItsDevice(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, "0.0.0.0:0")
	to := at(hosts[0].IPv4, ln.Addr().Port())
	refused := make(chan error, 1)
	go func() {
		req, err := ln.Accept(within(t, 10*time.Second))
		if err == nil {
			err = req.Reject(nil)
		}
		refused <- err
	}()
	if _, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", to); !errors.Is(err, syscall.ECONNREFUSED) && !isLostRejection(err) {
		t.Errorf("Dial = %v, want a rejection", err)
	}
	if err := <-refused; err != nil {
		t.Errorf("Accept and Reject: %v", err)
	}
	if err := hosts[0].Unplug(); err != nil {
		t.Fatalf("Unplug: %v", err)
	}
	hosts[0].Plug(t)
	go echo(ln)
	served(t, dialerOf(hosts[1].IPv4), mustParse(at(hosts[1].IPv4, ln.Addr().Port())))
}
