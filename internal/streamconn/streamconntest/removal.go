// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// Removal removes the device of c while both ends read and write. Every call must return with an error. The errors of
// c name the device, and the other end must not get an end of the stream.
func Removal(t *testing.T, c, s Conn, device string, remove func() error) {
	var begun, all sync.WaitGroup
	began := func() func() {
		begun.Add(1)
		return sync.OnceFunc(begun.Done)
	}
	for name, end := range map[string]Conn{"c": c, "s": s} {
		check := func(call string, err error) {
			removed, ok := errors.AsType[*verbs.DeviceRemovedError](err)
			if !errors.Is(err, syscall.ECONNRESET) || ok != (end == c) && !lostByTCP(err) || ok && removed.Device != device {
				t.Errorf("%s.%s() = %v, want %v, on c with the removal of %s", name, call, err, syscall.ECONNRESET, device)
			}
		}
		end.SetDeadline(time.Now().Add(Limit))
		wrote, read := began(), began()
		all.Go(func() {
			defer wrote()
			for {
				if _, err := end.Write(make([]byte, 10_000)); err != nil {
					check("Write", err)
					return
				}
				wrote()
			}
		})
		all.Go(func() {
			defer read()
			buf := make([]byte, 10_000)
			for {
				if n, err := io.ReadFull(end, buf); err != nil {
					if errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("%s.Read() = io.EOF after %d more bytes, want an error", name, n)
						return
					}
					check("Read", err)
					return
				}
				read()
			}
		})
	}
	begun.Wait()
	if err := remove(); err != nil {
		t.Errorf("remove() = %v", err)
	}
	all.Wait()
	for name, end := range map[string]Conn{"c": c, "s": s} {
		if _, err := end.Peek(); err == nil {
			t.Errorf("%s.Peek() = nil after the removal, want an error", name)
		}
		if err := end.Close(); err != nil {
			t.Errorf("%s.Close() = %v", name, err)
		}
	}
}

// lostByTCP reports whether an error is the failure of a send on siw. The removal closes the TCP connection, and siw
// completes the send with this status before the kernel reports the removal.
func lostByTCP(err error) bool {
	wc, ok := errors.AsType[*verbs.WCError](err)
	return vmtest.Driver() == "siw" && ok && wc.Status == verbs.WCLocQPOpErr
}

// VMRemoval removes the device of a dialing side, hosts[1], while it transfers data. The listener goes on. Then it removes
// the listener's device, hosts[0]. Accept must return.
func VMRemoval(t *testing.T, hosts []vmtest.Host, ln net.Listener, dial func() (net.Conn, error)) {
	pair := func() (c, s Conn) {
		conn, err := dial()
		if err != nil {
			t.Fatalf("dial() = %v", err)
		}
		accepted, err := ln.Accept()
		if err != nil {
			t.Fatalf("Accept() = %v", err)
		}
		return conn.(Conn), accepted.(Conn)
	}
	c, s := pair()
	Removal(t, c, s, hosts[1].Device, hosts[1].Unplug)
	hosts[1].Plug(t)
	c, s = pair()
	defer hosts[0].Plug(t)
	ended := make(chan error, 1)
	go func() {
		_, err := ln.Accept()
		ended <- err
	}()
	Removal(t, s, c, hosts[0].Device, hosts[0].Unplug)
	select {
	case err := <-ended:
		if _, ok := errors.AsType[*verbs.DeviceRemovedError](err); !ok {
			t.Errorf("Accept() = %v, want a DeviceRemovedError", err)
		}
	case <-time.After(Limit):
		t.Errorf("Accept() still waits after the removal of %s", hosts[0].Device)
	}
}

// Second is the address of the second device of a fake kernel, with any port.
var Second = netip.MustParseAddrPort("10.0.0.2:0")

// RemoveSecond returns the name of the second device of a fake kernel, and a function that removes it.
func RemoveSecond(t *testing.T, k *cmtest.Kernel) (device string, remove func() error) {
	t.Helper()
	devices, err := k.Devices()
	if err != nil || len(devices) != 2 {
		t.Fatalf("Devices() = %d devices, %v, want 2", len(devices), err)
	}
	device = devices[1].Name
	return device, func() error {
		if !k.Remove(device) {
			return errors.New("no such device")
		}
		return nil
	}
}
