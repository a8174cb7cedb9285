// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestDeviceRemoved unplugs a device while a connection uses it. Every waiting call on it
// returns. The deletion completes because the library releases the device. A wildcard listener
// keeps working with the other device.
func TestDeviceRemoved(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	wild := listen(t, "0.0.0.0:0")
	go echo(wild)
	bound := listen(t, at(hosts[0].IPv4, 0))
	boundErr := make(chan error, 1)
	go func() {
		_, err := bound.Accept(context.Background())
		boundErr <- err
	}()
	port := wild.Addr().Port()
	to := func(ip netip.Addr) string { return at(ip, port) }

	// The client is on the remaining device, and the server is on the removed one.
	conn, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", to(hosts[0].IPv4))
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	say(t, conn, "before")
	// Another client is on the removed device.
	gone, err := dialerOf(hosts[0].IPv4).Dial(within(t, 10*time.Second), "tcp", to(hosts[1].IPv4))
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer gone.Close()
	mr, err := gone.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	defer mr.Close()
	if err := gone.PostRecv(0, mr.SGE()); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	received := make(chan error, 1)
	go func() {
		_, err := gone.WaitRecv(context.Background())
		received <- err
	}()

	if err := hosts[0].Unplug(); err != nil { // on a busy machine mlx5 takes more than 30 seconds
		t.Fatalf("Unplug: %v", err)
	}
	defer hosts[0].Plug(t)

	var removed *verbs.DeviceRemovedError
	if err := recvWithin(t, received); !errors.As(err, &removed) || removed.Device != hosts[0].Device {
		t.Errorf("WaitRecv on the removed device = %v, want a DeviceRemovedError", err)
	}
	if err := recvWithin(t, boundErr); !errors.As(err, &removed) {
		t.Errorf("Accept on the removed device = %v, want a DeviceRemovedError", err)
	}
	if end, err := gone.Wait(within(t, 5*time.Second)); err != nil || end.Event != cm.EventDeviceRemoval {
		t.Errorf("Wait on the removed device = %v, %v, want DEVICE_REMOVAL", end, err)
	}
	if end, err := conn.Wait(within(t, 5*time.Second)); err != nil || end.Event != cm.EventDisconnected {
		t.Errorf("Wait of the peer = %v, %v, want DISCONNECTED", end, err)
	}
	if err := gone.Send(within(t, 10*time.Second), mr.Slice(0, 1)); !errors.As(err, &removed) {
		t.Errorf("Send on the removed device = %v, want a DeviceRemovedError", err)
	}
	if _, err := gone.PD().Alloc(4096, verbs.LocalWrite); !errors.As(err, &removed) {
		t.Errorf("Alloc on the removed device = %v, want a DeviceRemovedError", err)
	}
	// The listener still accepts on the other device.
	served(t, dialerOf(hosts[1].IPv4), mustParse(to(hosts[1].IPv4)))
}

func recvWithin(t *testing.T, ch <-chan error) error {
	t.Helper()
	select {
	case err := <-ch:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the call did not return within 10 seconds")
		return nil
	}
}

func mustParse(s string) cm.Addr {
	a, err := cm.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}
