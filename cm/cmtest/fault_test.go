// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/verbs"
)

// pair connects two hosts, and returns the listener and both ends of the connection.
func pair(t *testing.T, k *cmtest.Kernel) (ln *cm.Listener, client, server *cm.Conn) {
	t.Helper()
	ctx := deadline(t)
	ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	type result struct {
		conn *cm.Conn
		err  error
	}
	accepted := make(chan result, 1)
	go func() {
		req, err := ln.Accept(ctx)
		if err != nil {
			accepted <- result{nil, err}
			return
		}
		conn, err := req.Accept(ctx, nil, nil)
		accepted <- result{conn, err}
	}()
	client, err = (&cm.Dialer{Host: k.Host()}).Dial(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	r := <-accepted
	if r.err != nil {
		t.Fatalf("Accept: %v", r.err)
	}
	return ln, client, r.conn
}

// TestRejections dials addresses that reject the request or do not answer.
func TestRejections(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) {
		ctx := deadline(t)
		d := cm.Dialer{Host: k.Host()}
		var rejected *cm.RejectError
		if _, err := d.Dial(ctx, "tcp", "10.0.0.1:7471"); !errors.As(err, &rejected) || rejected.Reason != cm.RejectInvalidServiceID {
			t.Errorf("Dial of a port without a listener = %v, want reason %d", err, cm.RejectInvalidServiceID)
		}
		d.ResolveTimeout = 50 * time.Millisecond
		if _, err := d.Dial(ctx, "tcp", "10.0.0.9:7471"); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("Dial of an address that no device has = %v, want ETIMEDOUT", err)
		}
		ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(ctx, "tcp", ":7471")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		var refusing sync.WaitGroup
		defer refusing.Wait()
		defer ln.Close()
		refusing.Go(func() { refuse(ctx, ln) })
		if _, err := d.Dial(ctx, "tcp", "10.0.0.2:7471"); !errors.As(err, &rejected) || !strings.HasPrefix(string(rejected.PrivateData), "no room\x00") {
			t.Errorf("Dial of a server that refuses = %v, private data %q, want a RejectError with \"no room\"", err, rejected.PrivateData)
		}
		if _, err := (&cm.ListenConfig{Host: k.Host()}).Listen(ctx, "tcp", "10.0.0.1:7471"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("second Listen on the port = %v, want EADDRNOTAVAIL", err)
		}
	})
}

// TestLostMessages first loses the first message of each type, and then every message.
func TestLostMessages(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) {
		seen := map[cmtest.MessageType]int{}
		k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
			if seen[m.Type]++; seen[m.Type] == 1 {
				return cmtest.Lost, 0
			}
			return cmtest.Arrives, time.Millisecond
		})
		ln, client, server := pair(t, k)
		if end, err := client.Disconnect(deadline(t)); err != nil || end.Event != cm.EventDisconnected {
			t.Errorf("Disconnect() = %v, %v, want the event DISCONNECTED", end, err)
		}
		server.Close()
		client.Close()
		k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
			for _, typ := range []cmtest.MessageType{cmtest.REQ, cmtest.REP, cmtest.RTU, cmtest.DREQ, cmtest.DREP} {
				if seen[typ] < 2 {
					t.Errorf("%d messages of type %s, want at least 2", seen[typ], typ)
				}
			}
			return cmtest.Lost, 0
		})
		_, err := (&cm.Dialer{Host: k.Host()}).Dial(deadline(t), "tcp", "10.0.0.1:7471")
		var unreachable *cm.UnreachableError
		if !errors.As(err, &unreachable) || !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("Dial without a network = %v, want an UnreachableError with ETIMEDOUT", err)
		}
		ln.Close()
	})
}

// TestRemove removes the server's device while a connection uses it.
func TestRemove(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) {
		ctx := deadline(t)
		ln, client, server := pair(t, k)
		devs, err := k.Devices()
		if err != nil {
			t.Fatalf("Devices: %v", err)
		}
		if !k.Remove(devs[0].Name) || k.Remove(devs[0].Name) {
			t.Error("Remove called twice: want true, then false")
		}
		if _, err := client.WaitRecv(ctx); !errors.Is(err, io.EOF) {
			t.Errorf("WaitRecv of the peer = %v, want EOF", err)
		}
		var gone *verbs.DeviceRemovedError
		if _, err := server.WaitRecv(ctx); !errors.As(err, &gone) {
			t.Errorf("WaitRecv on the removed device = %v, want a DeviceRemovedError", err)
		}
		if _, err := ln.Accept(ctx); !errors.As(err, &gone) {
			t.Errorf("Accept on the removed device = %v, want a DeviceRemovedError", err)
		}
		for _, c := range []io.Closer{client, server, ln} {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
}

// TestUnplug disconnects the peer's device from the network without notice.
func TestUnplug(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) {
		ln, client, server := pair(t, k)
		devs, err := k.Devices()
		if err != nil {
			t.Fatalf("Devices: %v", err)
		}
		k.Unplug(devs[0].Name)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := client.WaitRecv(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitRecv = %v, want DeadlineExceeded", err)
		}
		if end, err := client.Disconnect(deadline(t)); end.Status != -int(syscall.ETIMEDOUT) {
			t.Errorf("Disconnect() = %+v, %v, want status -ETIMEDOUT", end, err)
		}
		client.Close()
		server.Close()
		ln.Close()
	})
}

// TestOnCommand fails single commands of the connection manager and of a device.
func TestOnCommand(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) {
		var mu sync.Mutex
		seen := map[string]bool{}
		k.OnCommand(func(c cmtest.Command) error {
			mu.Lock()
			defer mu.Unlock()
			seen[c.Name] = true
			return nil
		})
		ln, client, server := pair(t, k)
		client.Close()
		server.Close()
		k.OnCommand(nil)
		for _, name := range []string{"open", "CREATE_ID", "CONNECT", "GET_EVENT", "UVERBS_METHOD_QP_CREATE", "IB_USER_VERBS_CMD_MODIFY_QP", "mmap"} {
			if !seen[name] {
				t.Errorf("OnCommand was not called for %s", name)
			}
		}
		for _, name := range []string{"open", "CREATE_ID", "CONNECT", "UVERBS_METHOD_QP_CREATE"} {
			k.OnCommand(func(c cmtest.Command) error {
				if c.Name == name {
					return syscall.ENOMEM
				}
				return nil
			})
			if _, err := (&cm.Dialer{Host: k.Host()}).Dial(deadline(t), "tcp", "10.0.0.1:7471"); !errors.Is(err, syscall.ENOMEM) {
				t.Errorf("Dial with %s failing = %v, want ENOMEM", name, err)
			}
		}
		k.OnCommand(cmtest.FailNth(1, syscall.EIO))
		if _, err := (&cm.Dialer{Host: k.Host()}).Dial(deadline(t), "tcp", "10.0.0.1:7471"); !errors.Is(err, syscall.EIO) {
			t.Errorf("Dial with the first command failing = %v, want EIO", err)
		}
		k.OnCommand(nil)
		ln.Close()
	})
}

// TestLeft checks the list of open objects.
func TestLeft(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) {
		ln, client, server := pair(t, k)
		left := strings.Join(k.Left(), "\n")
		for _, want := range []string{"rdma_cm file", "listening, 10.0.0.1:7471", "established, 10.0.0.2:32768 to 10.0.0.1:7471", "opened 1 times"} {
			if !strings.Contains(left, want) {
				t.Errorf("Left() = %q, want %q", left, want)
			}
		}
		client.Close()
		server.Close()
		ln.Close()
	})
}

// TestListenOverIPv4Only listens on all addresses of a host with a device that refuses IPv6.
func TestListenOverIPv4Only(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) {
		for _, tc := range []struct {
			network, address string
			want             string // "" for an error
		}{
			{"tcp", ":7471", "0.0.0.0:7471"},
			{"tcp4", ":7471", ""}, // IPv4 is refused here
			{"tcp6", ":7471", ""},
			{"tcp", "[::]:7471", "0.0.0.0:7471"},
		} {
			refused := false
			k.OnCommand(func(c cmtest.Command) error {
				if c.Name == "LISTEN" && !refused {
					refused = true
					return syscall.EAFNOSUPPORT
				}
				return nil
			})
			ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(deadline(t), tc.network, tc.address)
			if tc.want == "" {
				if !errors.Is(err, syscall.EAFNOSUPPORT) {
					t.Errorf("Listen(%s, %s) = %v, %v, want EAFNOSUPPORT", tc.network, tc.address, ln, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("Listen(%s, %s): %v", tc.network, tc.address, err)
			}
			if got := ln.Addr().String(); got != tc.want {
				t.Errorf("Addr() of Listen(%s, %s) = %s, want %s", tc.network, tc.address, got, tc.want)
			}
			ln.Close()
		}
	})
}
