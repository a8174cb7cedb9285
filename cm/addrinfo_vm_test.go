// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// lookupInfo is LookupAddrInfo for a numeric address.
func lookupInfo(t *testing.T, node, service string, hints cm.AddrInfoHints) cm.AddrInfo {
	t.Helper()
	hints.Flags |= cm.AddrInfoNumericHost
	infos, err := cm.LookupAddrInfo(context.Background(), node, service, &hints)
	if err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	}
	return infos[0]
}

// TestInfo connects as rdma_create_ep does: what was looked up says where, from
// where and how, its connect data goes before the private data, and what cannot
// be reached is passed over.
func TestInfo(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	lc := cm.ListenConfig{QP: verbs.QPConfig{Cap: verbs.QPCap{RecvWR: 700}}}
	ln, err := lc.ListenInfo(lookupInfo(t, hosts[0].IPv4.String(), "", cm.AddrInfoHints{Flags: cm.AddrInfoPassive, PortSpace: cm.PortSpaceTCP}))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	asked, served := make(chan []byte, 1), make(chan struct{})
	go func() {
		defer close(served)
		req, err := ln.Accept(within(t, 20*time.Second))
		if err != nil {
			asked <- []byte(err.Error())
			return
		}
		asked <- req.PrivateData()
		conn, err := req.Accept(within(t, 10*time.Second), nil, nil)
		if err == nil {
			if n := conn.QP().Cap().RecvWR; n < 700 {
				t.Errorf("the server's QP was made for %d receives", n)
			}
			conn.Wait(within(t, 10*time.Second))
			conn.Close()
		}
	}()
	src := cm.AddrFrom(rcAddr(hosts[1].IPv4, 0).AddrPort)
	info := lookupInfo(t, hosts[0].IPv4.String(), fmt.Sprint(ln.Addr().Port()), cm.AddrInfoHints{QPType: verbs.RC, SrcAddr: src})
	info.Connect = []byte("to whom, ")
	nowhere := lookupInfo(t, "192.0.2.1", "7471", cm.AddrInfoHints{})
	p := cm.ConnParam{PrivateData: []byte("and what")}
	d := cm.Dialer{Param: &p, QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 600}}}
	conn, err := d.DialInfo(within(t, 20*time.Second), nowhere, info)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := <-asked; string(bytes.TrimRight(got, "\x00")) != "to whom, and what" {
		t.Errorf("the peer got %q", got)
	}
	if string(p.PrivateData) != "and what" {
		t.Errorf("the caller's parameters are now %q", p.PrivateData)
	}
	if qp := conn.QP(); conn.LocalAddr().Addr() != hosts[1].IPv4 || qp.Type() != verbs.RC || qp.Cap().SendWR < 600 {
		t.Errorf("from %v with %v for %d sends", conn.LocalAddr(), qp.Type(), qp.Cap().SendWR)
	}

	conn.Close()
	<-served

	// If none can be reached it is the first one's error.
	_, err = new(cm.Dialer).ResolveInfo(within(t, 20*time.Second), nowhere, lookupInfo(t, "192.0.2.2", "1", cm.AddrInfoHints{}))
	var op *cm.OpError
	if !errors.Is(err, syscall.ENETUNREACH) || !errors.As(err, &op) || op.Remote != nowhere.DstAddr {
		t.Error(err)
	}
}

// TestInfoDatagram is TestInfo for a QP type that is not the default.
func TestInfoDatagram(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln, err := (&cm.ListenConfig{}).ListenInfo(lookupInfo(t, hosts[0].IPv4.String(), "", cm.AddrInfoHints{Flags: cm.AddrInfoPassive, QPType: verbs.UD}))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	asked := make(chan []byte, 1)
	go func() {
		req, err := ln.Accept(within(t, 20*time.Second))
		if err != nil {
			asked <- []byte(err.Error())
			return
		}
		defer req.Close()
		asked <- req.PrivateData()
		req.Reject([]byte("no"))
	}()
	info := lookupInfo(t, hosts[0].IPv4.String(), fmt.Sprint(ln.Addr().Port()), cm.AddrInfoHints{PortSpace: cm.PortSpaceUDP})
	info.Connect = []byte("to whom")
	r, err := dialerOf(hosts[1].IPv4).ResolveInfo(within(t, 20*time.Second), info)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = r.Lookup(within(t, 20*time.Second), nil)
	if r.Device().Transport() == verbs.TransportIWARP {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("datagrams on iWARP: %v", err)
		}
		ln.Close()
		<-asked
		return
	}
	var un *cm.UnreachableError
	if !errors.As(err, &un) {
		t.Errorf("refused: %v", err)
	}
	if got := <-asked; !bytes.HasPrefix(got, []byte("to whom\x00")) {
		t.Errorf("the peer got %q", got)
	}
	if qp, err := r.QP(); err == nil && qp.Type() != verbs.UD {
		t.Errorf("the default QP is %v", qp.Type())
	}
}
