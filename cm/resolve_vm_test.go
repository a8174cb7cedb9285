// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestAddresses connects by addresses that need no look-up. The configurations of both
// sides determine the QPs.
func TestAddresses(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	lc := cm.ListenConfig{QP: verbs.QPConfig{Cap: verbs.QPCap{RecvWR: 700}}}
	ln, err := lc.ListenAddr(cm.PortSpaceTCP, rcAddr(hosts[0].IPv4, 0))
	if err != nil {
		t.Fatalf("ListenAddr: %v", err)
	}
	defer ln.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		req, err := ln.Accept(within(t, 20*time.Second))
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		conn, err := req.Accept(within(t, 10*time.Second), nil, nil)
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		defer conn.Close()
		if n := conn.QP().Cap().RecvWR; n < 700 {
			t.Errorf("Cap().RecvWR of the server = %d, want at least 700", n)
		}
		conn.Wait(within(t, 10*time.Second))
	}()
	d := cm.Dialer{LocalAddr: rcAddr(hosts[1].IPv4, 0), QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 600}}}
	r, err := d.ResolveAddr(within(t, 20*time.Second), cm.PortSpaceTCP, ln.Addr())
	if err != nil {
		t.Fatalf("ResolveAddr: %v", err)
	}
	defer r.Close()
	conn, err := r.Connect(within(t, 20*time.Second), nil, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer conn.Close()
	if qp := conn.QP(); conn.LocalAddr().Addr() != hosts[1].IPv4 || qp.Type() != verbs.RC || qp.Cap().SendWR < 600 {
		t.Errorf("connected from %v with %v for %d sends, want %v, RC and 600", conn.LocalAddr(), qp.Type(), qp.Cap().SendWR, hosts[1].IPv4)
	}
	conn.Close()
	<-served

	nowhere, err := cm.ParseAddr("192.0.2.1:7471")
	if err != nil {
		t.Fatalf("cm.ParseAddr: %v", err)
	}
	_, err = new(cm.Dialer).ResolveAddr(within(t, 20*time.Second), cm.PortSpaceTCP, nowhere)
	var op *cm.OpError
	if !errors.Is(err, syscall.ENETUNREACH) || !errors.As(err, &op) || op.Remote != nowhere {
		t.Errorf("ResolveAddr(%v) = %v, want ENETUNREACH", nowhere, err)
	}
}

// TestDatagramAddresses is TestAddresses for datagrams.
func TestDatagramAddresses(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln, err := new(cm.ListenConfig).ListenAddr(cm.PortSpaceUDP, rcAddr(hosts[0].IPv4, 0))
	if err != nil {
		t.Fatalf("ListenAddr: %v", err)
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
	r, err := dialerOf(hosts[1].IPv4).ResolveAddr(within(t, 20*time.Second), cm.PortSpaceUDP, ln.Addr())
	if err != nil {
		t.Fatalf("ResolveAddr: %v", err)
	}
	defer r.Close()
	_, err = r.Lookup(within(t, 20*time.Second), &cm.ConnParam{PrivateData: []byte("which QP?")})
	if r.Device().Transport() == verbs.TransportIWARP {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Lookup on iWARP = %v, want ErrUnsupported", err)
		}
		ln.Close()
		<-asked
		return
	}
	var un *cm.UnreachableError
	if !errors.As(err, &un) {
		t.Errorf("Lookup = %v, want an UnreachableError", err)
	}
	if got := <-asked; !bytes.HasPrefix(got, []byte("which QP?\x00")) {
		t.Errorf("PrivateData() = %q, want \"which QP?\"", got)
	}
	if qp, err := r.QP(); err == nil && qp.Type() != verbs.UD {
		t.Errorf("Type() of the default QP = %v, want UD", qp.Type())
	}
}
