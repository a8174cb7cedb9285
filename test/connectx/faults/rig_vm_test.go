// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// limit is a time limit for operations that take a card milliseconds, and an emulated machine
// longer.
const limit = 20 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// link is a connection from the second host to the first.
type link struct {
	hosts          []vmtest.Host
	client, server *cm.Conn
	local, remote  *verbs.MR
}

// newLink connects, with a buffer of 64 bytes on each side that the other side may write.
func newLink(t *testing.T) *link {
	t.Helper()
	l := &link{hosts: vmtest.Hosts(t, 2)}
	ln, err := cm.Listen(within(t), "tcp", netip.AddrPortFrom(l.hosts[0].IPv4, 0).String())
	if err != nil {
		t.Fatalf("cm.Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	accepted := make(chan *cm.Conn, 1)
	go func() {
		var c *cm.Conn
		req, err := ln.Accept(within(t))
		if err == nil {
			c, err = req.Accept(within(t), nil, nil)
		}
		if err != nil {
			t.Errorf("Accept: %v", err)
		}
		accepted <- c
	}()
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(l.hosts[1].IPv4, 0)), AckTimeout: 4 * time.Millisecond, Param: &cm.ConnParam{RetryCount: 3, RNRRetryCount: 7}}
	if l.client, err = d.Dial(within(t), "tcp", ln.Addr().String()); err != nil {
		t.Fatalf("d.Dial: %v", err)
	}
	if l.server = <-accepted; l.server == nil {
		t.Fatal("no connection was accepted")
	}
	t.Cleanup(func() { l.client.Close(); l.server.Close() })
	if l.local, err = l.client.PD().Alloc(64, verbs.LocalWrite); err != nil {
		t.Fatalf("l.client.PD().Alloc: %v", err)
	}
	if l.remote, err = l.server.PD().Alloc(64, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		t.Fatalf("l.server.PD().Alloc: %v", err)
	}
	t.Cleanup(func() { l.local.Close(); l.remote.Close() })
	return l
}

// write makes the client write one byte into the server's memory.
func (l *link) write(t *testing.T, b byte) error {
	t.Helper()
	l.local.Bytes()[0] = b
	err := l.client.Write(within(t), l.local.Slice(0, 1), l.remote.Remote())
	if err == nil && l.remote.Bytes()[0] != b {
		t.Errorf("WRITE of %#x stored %#x", b, l.remote.Bytes()[0])
	}
	return err
}
