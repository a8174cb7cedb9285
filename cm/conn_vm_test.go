// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestEcho(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, tc := range []struct {
		name           string
		server, client netip.Addr
	}{
		{"IPv4", hosts[0].IPv4, hosts[1].IPv4},
		{"IPv6", hosts[0].IPv6, hosts[1].IPv6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			vmtest.NoLeaks(t)
			ln := listen(t, at(tc.server, 0))
			go echo(ln)
			conn, err := dialerOf(tc.client).Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatalf("Dial: %v", err)
			}
			defer conn.Close()
			if conn.RemoteAddr() != ln.Addr() || conn.LocalAddr().Addr() != tc.client {
				t.Errorf("connection %v -> %v, want %v -> %v", conn.LocalAddr(), conn.RemoteAddr(), tc.client, ln.Addr())
			}
			for _, msg := range []string{"a", "hello", strings.Repeat("x", 4096)} {
				say(t, conn, msg)
			}
		})
	}
}

func TestWildcardListenerTakesBothDevicesAndFamilies(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	for _, tc := range []struct {
		name, address string
		from, to      netip.Addr
	}{
		{"IPv6", ":0", hosts[1].IPv6, hosts[0].IPv6},
		{"IPv6 back", ":0", hosts[0].IPv6, hosts[1].IPv6},
		{"IPv4", "0.0.0.0:0", hosts[1].IPv4, hosts[0].IPv4},
		{"IPv4 back", "0.0.0.0:0", hosts[0].IPv4, hosts[1].IPv4},
		{"both", ":0", hosts[1].IPv4, hosts[0].IPv4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ln := listen(t, tc.address)
			go echo(ln)
			conn, err := dialerOf(tc.from).Dial(within(t, 10*time.Second), "tcp", at(tc.to, ln.Addr().Port()))
			if err != nil {
				t.Fatalf("Dial from %v to %v: %v", tc.from, tc.to, err)
			}
			say(t, conn, "hello")
			conn.Close()
		})
	}
}

// padded returns private data as the peer receives it. On RoCE it is padded with zeros to n
// bytes.
func padded(s string, n int) []byte {
	if vmtest.IWARP() {
		return []byte(s)
	}
	return append([]byte(s), make([]byte, n-len(s))...)
}

func TestStagesPrivateDataAndDepths(t *testing.T) {
	ln, d := ends(t)
	serverDone := make(chan error, 1)
	go func() {
		serverDone <- func() error {
			req, err := ln.Accept(within(t, 10*time.Second))
			if err != nil {
				return err
			}
			defer req.Close()
			p := req.PeerParam()
			if string(req.PrivateData()) != string(padded("hello", 56)) {
				return errors.New("PrivateData() = " + string(req.PrivateData()))
			}
			// The peer's initiator depth is our responder resources.
			if vmtest.IWARP() { // iWARP has no such counts
				p.RetryCount, p.RNRRetryCount = 5, 6
			}
			if most := req.Device().Attr().MaxQPRdAtom; vmtest.Driver() == "erdma" && p.IncomingReads == most && p.OutgoingReads == most {
				p.IncomingReads, p.OutgoingReads = 3, 4 // erdma reports its own limits
			}
			if p.IncomingReads != 3 || p.OutgoingReads != 4 || p.RetryCount != 5 || p.RNRRetryCount != 6 {
				return errors.New("PeerParam() differs from the parameters of Connect")
			}
			if req.Device().Name() == "" || !req.RemoteAddr().IsValid() {
				return errors.New("request without a device or a remote address")
			}
			conn, err := req.Accept(within(t, 10*time.Second), nil, &cm.ConnParam{PrivateData: []byte("welcome"), ResponderResources: 2, InitiatorDepth: 1})
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Wait(within(t, 10*time.Second))
			return err
		}()
	}()
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	pd, err := r.Device().AllocPD()
	if err != nil {
		t.Fatalf("AllocPD: %v", err)
	}
	defer pd.Close()
	cq, err := r.Device().CreateCQ(verbs.CQConfig{Entries: 64})
	if err != nil {
		t.Fatalf("CreateCQ: %v", err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	defer qp.Close()
	if err := r.Init(qp); err != nil {
		t.Fatalf("Init: %v", err)
	}
	if qp.State() != verbs.QPInit {
		t.Errorf("QP state after Init = %v, want INIT", qp.State())
	}
	conn, err := r.Connect(within(t, 10*time.Second), qp, &cm.ConnParam{PrivateData: []byte("hello"),
		ResponderResources: 4, InitiatorDepth: 3, RetryCount: 5, RNRRetryCount: 6})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if conn.QP() != qp || qp.State() != verbs.QPRTS {
		t.Errorf("QP state after Connect = %v, want RTS on the given QP", qp.State())
	}
	if string(conn.PrivateData()) != string(padded("welcome", 196)) {
		t.Errorf("PrivateData() = %q, want %q", conn.PrivateData(), padded("welcome", 196))
	}
	// siw has negotiated, and reports how many reads each side serves and issues.
	depths := [2]int{2, 1}
	switch vmtest.Driver() {
	case "siw":
		depths = [2]int{1, 3}
	case "erdma": // which reports none
		depths = [2]int{}
	}
	if p := conn.PeerParam(); p.OutgoingReads != depths[0] || p.IncomingReads != depths[1] {
		t.Errorf("PeerParam() = %+v, want the depths %v", p, depths)
	}
	conn.Close()
	if qp.State() != verbs.QPErr {
		t.Errorf("QP state after Close = %v, want ERR", qp.State())
	}
	if err := <-serverDone; err != nil {
		t.Errorf("server: %v", err)
	}
}
