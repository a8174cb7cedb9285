// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

func TestEventRejected(t *testing.T) {
	t.Run("by the application", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		server := r.requested(client, nil)
		data := bytes.Repeat([]byte("no"), 74)
		r.ok(server.Reject(data))
		ev := r.want(r.client, client, cm.EventRejected, cm.RejectConsumer)
		if !bytes.Equal(ev.Conn.PrivateData, data) || client.QP().State() != verbs.QPErr {
			t.Errorf("private data of REJECTED = %q, QP in %v, want %q, ERR", ev.Conn.PrivateData, client.QP().State(), data)
		}
	})
	t.Run("by closing the request", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		r.requested(client, nil).Close()
		r.want(r.client, client, cm.EventRejected, cm.RejectConsumer)
	})
	t.Run("by closing the listener", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		r.queued(client)
		r.listener.Close()
		r.want(r.client, client, cm.EventRejected, cm.RejectConsumer)
	})
	t.Run("no listener", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolvedTo(cm.AddrFrom(netip.AddrPortFrom(r.hosts[0].IPv4, 1)), nil))
		r.ok(client.Connect(nil))
		ev := r.want(r.client, client, cm.EventRejected, cm.RejectInvalidServiceID)
		if !errors.Is(ev.Err(), syscall.ECONNREFUSED) || ev.Conn.PrivateData != nil {
			t.Errorf("REJECTED: Err() = %v, %d bytes of private data, want ECONNREFUSED, 0", ev.Err(), len(ev.Conn.PrivateData))
		}
	})
	t.Run("stale", func(t *testing.T) {
		// Send a request with the number of a QP that is already connected.
		r := newRig(t)
		_, client := r.connected()
		again := r.resolved()
		r.ok(again.Connect(&cm.ConnParam{QPNum: client.QP().Num()}))
		r.want(r.client, again, cm.EventRejected, cm.RejectStaleConn)
	})
	t.Run("vendor options", func(t *testing.T) {
		r := newRig(t)
		client := r.resolved()
		r.ok(client.SetLocalECE(verbs.ECE{VendorID: 0x2c9, Options: 0x77}))
		server := r.requested(client, &cm.ConnParam{QPNum: 7})
		if got := server.RemoteECE(); got != (verbs.ECE{VendorID: 0x2c9, Options: 0x77}) {
			t.Errorf("RemoteECE() = %+v, want options 0x77 of vendor 0x2c9", got)
		}
		r.ok(server.RejectECE([]byte("no such options")))
		ev := r.want(r.client, client, cm.EventRejected, cm.RejectVendorOption)
		if !bytes.HasPrefix(ev.Conn.PrivateData, []byte("no such options")) {
			t.Errorf("private data of REJECTED = %q, want \"no such options\"", ev.Conn.PrivateData)
		}
	})
	t.Run("given up after the answer", func(t *testing.T) {
		// The answer is lost, and the peer leaves before the kernel repeats it.
		r := newRig(t)
		client := r.withQP(r.resolved())
		server := r.withQP(r.requested(client, nil))
		undo := r.hosts[0].Lose(t)
		r.ok(server.Accept(nil))
		time.Sleep(100 * time.Millisecond)
		client.Close()
		r.want(r.server, server, cm.EventRejected, cm.RejectTimeout)
		undo()
	})
}

// TestEventRejectedWhenEstablished checks a rejection of an established connection. The other
// side has accepted, and is destroyed before it gets the confirmation. Its kernel then only
// sends a rejection, which ends the connection.
func TestEventRejectedWhenEstablished(t *testing.T) {
	t.Run("events", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		server := r.withQP(r.requested(client, nil))
		undo := r.hosts[1].Lose(t)
		r.ok(server.Accept(nil))
		r.want(r.client, client, cm.EventEstablished, 0)
		if client.State() != cm.StateEstablished || client.QP().State() != verbs.QPRTS || server.State() != cm.StateAccepting {
			t.Errorf("states = %v, %v, QP in %v, want established, accepting, RTS", client.State(), server.State(), client.QP().State())
		}
		server.Close()
		ev := r.want(r.client, client, cm.EventRejected, cm.RejectConsumer)
		var rej *cm.RejectError
		if err := ev.Err(); !errors.As(err, &rej) || rej.Reason != cm.RejectConsumer {
			t.Errorf("Err() = %v, want a RejectError with reason consumer", err)
		}
		if client.State() != cm.StateDisconnected || client.QP().State() != verbs.QPErr {
			t.Errorf("state = %v, QP in %v, want disconnected, ERR", client.State(), client.QP().State())
		}
		undo()
	})
	t.Run("Conn", func(t *testing.T) {
		r := newRig(t)
		dialed := make(chan *cm.Conn, 1)
		go func() {
			defer close(dialed)
			conn, err := dialerOf(r.hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", r.listener.LocalAddr().String())
			if err != nil {
				t.Errorf("Dial: %v", err)
				return
			}
			dialed <- conn
		}()
		ev := expect(t, r.server, cm.EventConnectRequest)
		ev.Ack()
		server := r.withQP(ev.ID)
		undo := r.hosts[1].Lose(t)
		r.ok(server.Accept(nil))
		conn := <-dialed
		if conn == nil {
			t.FailNow()
		}
		defer conn.Close()
		r.ok(conn.PostRecv(1, alloc(t, conn.PD(), 64).SGE()))
		received := make(chan error, 1)
		go func() {
			_, err := conn.WaitRecv(within(t, 10*time.Second))
			received <- err
		}()
		server.Close()
		if end, err := conn.Wait(within(t, 10*time.Second)); err != nil || end != (cm.End{Event: cm.EventDisconnected}) {
			t.Errorf("Wait() = %+v, %v, want DISCONNECTED", end, err)
		}
		if err := <-received; err != io.EOF {
			t.Errorf("WaitRecv() = %v, want io.EOF", err)
		}
		if err := conn.Send(within(t, 10*time.Second)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Send() afterwards = %v, want ECONNRESET", err)
		}
		undo()
	})
}
