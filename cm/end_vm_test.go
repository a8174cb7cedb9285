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

// connPair is a connection with a receive posted on the accepting side.
func connPair(t *testing.T) (client, server *cm.Conn) {
	t.Helper()
	ln, d := ends(t)
	accepted := make(chan *cm.Conn, 1)
	go func() {
		defer close(accepted)
		req, err := ln.Accept(within(t, 10*time.Second))
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		pd, err := req.PD()
		if err != nil {
			t.Errorf("PD: %v", err)
			return
		}
		if err := req.PostRecv(1, alloc(t, pd, 4096).SGE()); err != nil {
			t.Errorf("PostRecv: %v", err)
		}
		conn, err := req.Accept(within(t, 10*time.Second), nil, nil)
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		accepted <- conn
	}()
	client, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	if server = <-accepted; server == nil {
		t.FailNow()
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// TestWhoHasDisconnected: the peer's end is io.EOF, one's own is said to be that,
// on both sides each time.
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
			t.Fatalf("%+v, %v", end, err)
		}
		if err := <-received; err != io.EOF {
			t.Fatalf("the peer's WaitRecv: %v", err)
		}
		if _, err := server.WaitRecv(within(t, 10*time.Second)); err != io.EOF {
			t.Fatalf("the peer's WaitRecv, again: %v", err)
		}
		if _, err := client.WaitRecv(within(t, 10*time.Second)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("our WaitRecv: %v", err)
		}
		client.Close()
		if end, err := client.Wait(within(t, 10*time.Second)); err != nil || !end.Local {
			t.Fatalf("after Close: %+v, %v", end, err)
		}
		if end, err := server.Wait(within(t, 10*time.Second)); err != nil || end != (cm.End{Event: cm.EventDisconnected}) {
			t.Fatalf("the peer's end: %+v, %v", end, err)
		}
		server.Close()
	}
}

// TestRemoteAccessErrorIsKept: the side that wrote where it may not keeps the cause;
// the other's QP has failed, too, and its lost messages are no io.EOF, whether it
// looks before the peer disconnects or after.
func TestRemoteAccessErrorIsKept(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	for _, late := range []bool{false, true} {
		client, server := connPair(t)
		buf := alloc(t, client.PD(), 64)
		err := client.Write(within(t, 10*time.Second), buf.SGE(), wrongKey)
		if iwarp() {
			// The WRITE has gone before the peer looks at it: the connection ends.
			if _, err := client.Wait(within(t, 10*time.Second)); err != nil {
				t.Fatalf("client.Wait: %v", err)
			}
			if err := client.Write(within(t, 10*time.Second), buf.SGE(), wrongKey); err == nil {
				t.Error("a WRITE on a connection that has ended")
			}
			continue
		}
		var wc *verbs.WCError
		if !errors.As(err, &wc) || wc.Status != verbs.WCRemAccessErr {
			t.Fatalf("Write: %v", err)
		}
		for name, err := range map[string]error{"Send": client.Send(within(t, 10*time.Second), buf.SGE()), "Probe": client.Probe(within(t, 10*time.Second))} {
			var broken *cm.BrokenError
			if !errors.As(err, &broken) || broken.Op != "write" || !errors.Is(err, wc) {
				t.Errorf("%s: %v", name, err)
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
			t.Errorf("late %v, the peer: %v", late, err)
		}
	}
}

// TestTheKernelTakesLoopbackForAll is why Listen refuses a loopback address: an ID
// bound to one takes requests from the network.
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
