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

// TestDeviceRemoved unplugs a device under a live connection: everybody on it is
// told, the deletion ends because the library lets go of the device, and a
// wildcard listener goes on with the other device.
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

	// Client on the device that stays, server on the one that goes.
	conn, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", to(hosts[0].IPv4))
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	say(t, conn, "before")
	// And a client on the device that goes.
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

	deleted := make(chan error, 1)
	go func() { deleted <- hosts[0].Unplug() }()
	select {
	case err := <-deleted:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute): // on a busy machine mlx5 takes more than 30 seconds
		t.Fatal("the deletion of the device does not end")
	}
	defer hosts[0].Plug(t)

	var removed *verbs.DeviceRemovedError
	if err := recvWithin(t, received); !errors.As(err, &removed) || removed.Device != hosts[0].Device {
		t.Errorf("the waiting receive got %v", err)
	}
	if err := recvWithin(t, boundErr); !errors.As(err, &removed) {
		t.Errorf("the listener on the device got %v", err)
	}
	if end, err := gone.Wait(within(t, 5*time.Second)); err != nil || end.Event != cm.EventDeviceRemoval {
		t.Errorf("the connection on the device ended with %v, %v", end, err)
	}
	if end, err := conn.Wait(within(t, 5*time.Second)); err != nil || end.Event != cm.EventDisconnected {
		t.Errorf("the peer's connection ended with %v, %v", end, err)
	}
	if err := gone.Send(within(t, 10*time.Second), mr.Slice(0, 1)); !errors.As(err, &removed) {
		t.Errorf("sending on the removed device: %v", err)
	}
	if _, err := gone.PD().Alloc(4096, verbs.LocalWrite); !errors.As(err, &removed) {
		t.Errorf("registering on the removed device: %v", err)
	}
	// The listener's other device.
	served(t, dialerOf(hosts[1].IPv4), mustParse(to(hosts[1].IPv4)))
}

func recvWithin(t *testing.T, ch <-chan error) error {
	t.Helper()
	select {
	case err := <-ch:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came back")
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
