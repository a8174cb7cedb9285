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

// TestPeerDies kills a serving process in the middle of a transfer. Its kernel
// says goodbye for it.
func TestPeerDies(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	child, addr := spawn(t, "echo", at(hosts[0].IPv4, 0))
	conn, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	buf, err := conn.PD().Alloc(8192, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
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
		if _, err = conn.WaitRecv(ctx); err != nil {
			if !errors.Is(err, io.EOF) {
				wantError(t, err, "receive", nil, addr)
			}
			break
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the death was not noticed: %v", err)
	}
	end, err := conn.Wait(within(t, 5*time.Second))
	if err != nil || end.Event != cm.EventDisconnected {
		t.Errorf("the connection ended with %v, %v", end, err)
	}
	if _, err := conn.WaitRecv(within(t, 5*time.Second)); !errors.Is(err, io.EOF) {
		t.Errorf("receiving after the end: %v", err)
	}
}

// TestDyingClientsDoNotDisturb kills clients of a listener that serves others.
func TestDyingClientsDoNotDisturb(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, at(hosts[0].IPv4, 0))
	go echo(ln)
	d := dialerOf(hosts[1].IPv4)
	steady, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
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
