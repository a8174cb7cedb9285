// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package link connects two hosts of the virtual machine, for tests on a failing device.
package link

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// Within returns a context with a time limit for operations that take a device milliseconds, and an emulated machine
// longer.
func Within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A Link is a connection from the second host to the first.
type Link struct {
	Hosts          []vmtest.Host
	Client, Server *cm.Conn
	Local, Remote  *verbs.MR
	Events         *verbs.AsyncEvents // of the client's device
}

// New connects, with a buffer of 64 bytes on each side. The client may write to the server's buffer.
func New(t *testing.T) *Link {
	t.Helper()
	l := &Link{Hosts: vmtest.Hosts(t, 2)}
	ln, err := cm.Listen(Within(t), "tcp", netip.AddrPortFrom(l.Hosts[0].IPv4, 0).String())
	if err != nil {
		t.Fatalf("cm.Listen: %v", err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Accept(Within(t))
		if err == nil {
			l.Server, err = req.Accept(Within(t), nil, nil)
		}
		accepted <- err
	}()
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(l.Hosts[1].IPv4, 0))}
	if l.Client, err = d.Dial(Within(t), "tcp", ln.Addr().String()); err != nil {
		t.Fatalf("Dialer.Dial: %v", err)
	}
	t.Cleanup(func() { l.Client.Close() })
	if err := <-accepted; err != nil {
		t.Fatalf("Request.Accept: %v", err)
	}
	t.Cleanup(func() { l.Server.Close() })
	if l.Local, err = l.Client.Alloc(64, verbs.LocalWrite); err != nil {
		t.Fatalf("Conn.Alloc: %v", err)
	}
	if l.Remote, err = l.Server.Alloc(64, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		t.Fatalf("Conn.Alloc: %v", err)
	}
	if l.Events, err = l.Client.Device().AsyncEvents(); err != nil {
		t.Fatalf("Device.AsyncEvents: %v", err)
	}
	t.Cleanup(func() { l.Events.Close() })
	return l
}

// Write makes the client write one byte into the server's memory.
func (l *Link) Write(ctx context.Context) error {
	return l.Client.Write(ctx, l.Local.Slice(0, 1), l.Remote.Remote())
}

// PostReceives posts a receive at the client with the number id, and one at the server with the next number.
func (l *Link) PostReceives(t *testing.T, id uint64) {
	t.Helper()
	for i, c := range []*cm.Conn{l.Client, l.Server} {
		mr, err := c.Alloc(64, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("Conn.Alloc: %v", err)
		}
		if err := c.PostRecv(id+uint64(i), mr.Slice(0, 64)); err != nil {
			t.Fatalf("Conn.PostRecv: %v", err)
		}
	}
}

// WantFatal waits for the event QP_FATAL of the client's QP.
func (l *Link) WantFatal(t *testing.T) {
	t.Helper()
	ev, err := l.Events.Next(Within(t))
	if err != nil || ev.Type != verbs.AsyncQPFatal || ev.QP != l.Client.QP() {
		t.Errorf("AsyncEvents.Next() = %+v, %v, want QP_FATAL of QP %p", ev, err, l.Client.QP())
	}
}

// WantFlushed checks that the next completion of a receive is a flush of the receive id.
func WantFlushed(t *testing.T, c *cm.Conn, id uint64) {
	t.Helper()
	var wc [1]verbs.WC
	n, err := c.QP().RecvCQ().Wait(Within(t), wc[:])
	if n != 1 || err != nil || wc[0].ID != id || wc[0].Status != verbs.WCWRFlushErr {
		t.Errorf("CQ.Wait = %d, %v with %+v, want a flush of receive %d", n, err, wc[0], id)
	}
}
