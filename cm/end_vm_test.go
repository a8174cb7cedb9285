// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// connPair returns a connection with a receive posted on the accepting side.
func connPair(t *testing.T) (client, server *cm.Conn) {
	t.Helper()
	ln, d := ends(t)
	accepted := acceptOne(within(t, 10*time.Second), t, ln, func(req *cm.Request) (*cm.ConnParam, error) {
		pd, err := req.PD()
		if err != nil {
			return nil, err
		}
		return nil, req.PostRecv(1, alloc(t, pd, 4096).SGE())
	})
	client, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	server = accepted()
	t.Cleanup(func() { server.Close() })
	return client, server
}

// TestWhoHasDisconnected checks on both sides which side ended the connection. The peer gets
// io.EOF, and the disconnecting side gets net.ErrClosed.
func TestWhoHasDisconnected(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	for range 20 {
		client, server := connPair(t)
		received := make(chan error, 1)
		go func() {
			_, err := server.WaitRecv(within(t, 10*time.Second))
			received <- err
		}()
		end, err := client.Disconnect(within(t, 10*time.Second))
		if want := (cm.End{Event: cm.EventDisconnected, Local: true}); err != nil || end != want {
			t.Fatalf("Disconnect() = %+v, %v, want %+v", end, err, want)
		}
		if err := <-received; err != io.EOF {
			t.Fatalf("WaitRecv() of the peer = %v, want io.EOF", err)
		}
		if _, err := server.WaitRecv(within(t, 10*time.Second)); err != io.EOF {
			t.Fatalf("second WaitRecv() of the peer = %v, want io.EOF", err)
		}
		if _, err := client.WaitRecv(within(t, 10*time.Second)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("WaitRecv() = %v, want net.ErrClosed", err)
		}
		client.Close()
		if end, err := client.Wait(within(t, 10*time.Second)); err != nil || !end.Local {
			t.Fatalf("Wait() after Close = %+v, %v, want a local end", end, err)
		}
		if end, err := server.Wait(within(t, 10*time.Second)); err != nil || end != (cm.End{Event: cm.EventDisconnected}) {
			t.Fatalf("Wait() of the peer = %+v, %v, want DISCONNECTED", end, err)
		}
		server.Close()
	}
}

// TestRemoteAccessErrorIsKept checks both sides after a forbidden WRITE. The writing side
// keeps the cause. The peer's QP has also failed. The peer's lost messages are no io.EOF,
// neither before nor after the disconnect.
func TestRemoteAccessErrorIsKept(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	for _, late := range []bool{false, true} {
		client, server := connPair(t)
		buf := alloc(t, client.PD(), 64)
		err := client.Write(within(t, 10*time.Second), buf.SGE(), wrongKey)
		if vmtest.IWARP() {
			// The WRITE completes before the peer checks it. The connection then ends.
			if _, err := client.Wait(within(t, 10*time.Second)); err != nil {
				t.Fatalf("client.Wait: %v", err)
			}
			if err := client.Write(within(t, 10*time.Second), buf.SGE(), wrongKey); err == nil {
				t.Error("Write after the end = nil, want an error")
			}
			continue
		}
		var wc *verbs.WCError
		if !errors.As(err, &wc) || wc.Status != verbs.WCRemAccessErr {
			t.Fatalf("Write() with a wrong key = %v, want a remote access error", err)
		}
		for name, err := range map[string]error{"Send": client.Send(within(t, 10*time.Second), buf.SGE()), "Probe": client.Probe(within(t, 10*time.Second))} {
			var broken *cm.BrokenError
			if !errors.As(err, &broken) || broken.Op != "write" || !errors.Is(err, wc) {
				t.Errorf("%s() = %v, want a BrokenError of the write", name, err)
			}
		}
		if late {
			client.Close()
			if _, err := server.Wait(within(t, 10*time.Second)); err != nil {
				t.Fatalf("server.Wait: %v", err)
			}
		}
		var broken *cm.BrokenError
		if _, err := server.WaitRecv(within(t, 10*time.Second)); !errors.As(err, &broken) || broken.Op != "" {
			t.Errorf("WaitRecv() of the peer with the disconnect first: %v = %v, want a BrokenError without an operation", late, err)
		}
	}
}

// TestTheKernelTakesLoopbackForAll shows why Listen refuses a loopback address. An ID that is
// bound to one gets requests from the network.
func TestTheKernelTakesLoopbackForAll(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	loopback, err := cm.ParseAddr("127.0.0.1:0")
	if err != nil {
		t.Fatalf("cm.ParseAddr: %v", err)
	}
	ln, err := new(cm.ListenConfig).ListenAddr(cm.PortSpaceTCP, loopback)
	if err != nil {
		t.Fatalf("ListenAddr: %v", err)
	}
	defer ln.Close()
	go echo(ln)
	conn, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", at(hosts[0].IPv4, ln.Addr().Port()))
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	say(t, conn, "from the network")
}
