// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// wantError checks that an error is an OpError of the operation, wraps the cause, and contains
// all words.
func wantError(t *testing.T, err error, op string, cause error, words ...string) {
	t.Helper()
	var oe *cm.OpError
	if !errors.As(err, &oe) || oe.Op != op {
		t.Fatalf("error = %v (%T), want an OpError of %q", err, err, op)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Fatalf("error = %v, want %v", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error = %q, want the text %q", err, w)
		}
	}
}

func TestNoRoute(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	_, err := cm.Dial(within(t, 10*time.Second), "tcp", "203.0.113.1:7471")
	wantError(t, err, "resolve", syscall.ENETUNREACH, "203.0.113.1:7471")
}

// TestAddressesThatLeadNowhere checks hints whose cause the errno does not show. One is a
// loopback address as the source. The other is a link-local address without an interface.
func TestAddressesThatLeadNowhere(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	const loopback, zone = "no RDMA device has a loopback address", "is link-local: name its interface"
	v4, v6 := at(hosts[0].IPv4, 7471), at(hosts[0].IPv6, 7471)
	for _, tc := range []struct{ from, to, words string }{
		{"127.0.0.1:0", v4, loopback},
		{"[::1]:0", v6, loopback},
		{"[fe80::1]:0", v6, zone},
		{"", "[fe80::1]:7471", zone},
	} {
		if vmtest.IWARP() && tc.from == "[::1]:0" {
			// The kernel resolves it for iWARP. siw then connects within the host, and erdma refuses IPv6.
			continue
		}
		d := &cm.Dialer{}
		if tc.from != "" {
			d.LocalAddr = mustParse(tc.from)
		} else {
			d.ResolveTimeout = 300 * time.Millisecond // the kernel looks for the address on an arbitrary interface
		}
		_, err := d.Dial(within(t, 10*time.Second), "tcp", tc.to)
		wantError(t, err, "resolve", nil, tc.words)
	}
	_, err := cm.Listen(within(t, 10*time.Second), "tcp", "[fe80::1]:7471")
	wantError(t, err, "bind", syscall.EINVAL, zone)
}

// neighbour returns an unused address on the subnet of ip.
func neighbour(ip netip.Addr, host byte, port uint16) string {
	a := ip.As4()
	a[3] = host
	return at(netip.AddrFrom4(a), port)
}

func TestNobodyHasTheAddress(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	// The address is on the subnet of the network, but unused, so that it does not resolve.
	dst := neighbour(hosts[1].IPv4, 77, 7471)
	d := dialerOf(hosts[1].IPv4)
	d.ResolveTimeout = 300 * time.Millisecond
	_, err := d.Dial(within(t, time.Minute), "tcp", dst)
	wantError(t, err, "resolve", syscall.ETIMEDOUT, dst)
	var ue *cm.UnreachableError
	if !errors.As(err, &ue) || ue.Event != cm.EventAddrError {
		t.Errorf("Dial() = %#v, want an UnreachableError with ADDR_ERROR", err)
	}
}

func TestNobodyListens(t *testing.T) {
	ln, d := ends(t)
	addr := ln.Addr().String()
	ln.Close()
	_, err := d.Dial(within(t, 10*time.Second), "tcp", addr)
	words := "no listener"
	if vmtest.Driver() == "erdma" {
		words = "rejected by the peer" // it reports a reset as a rejection
	}
	wantError(t, err, "connect", syscall.ECONNREFUSED, addr, words)
	var rej *cm.RejectError
	reason, transport := cm.RejectInvalidServiceID, verbs.TransportIB
	if vmtest.IWARP() {
		reason, transport = 0, verbs.TransportIWARP
	}
	if !errors.As(err, &rej) || rej.Reason != reason || rej.Transport != transport {
		t.Errorf("RejectError = %#v, want reason %d and transport %v", rej, reason, transport)
	}
}

func TestPeerRejects(t *testing.T) {
	ln, d := ends(t)
	most, words, said := 148, "rejected by the application", "full up\x00"
	reason, cause := cm.RejectConsumer, error(nil)
	if vmtest.IWARP() {
		most, words, said = 251, "rejected by the peer", "full up"
		reason, cause = 0, syscall.ECONNRESET
	}
	go func() {
		for {
			req, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			if err := req.Reject(make([]byte, most+1)); err == nil {
				t.Errorf("Reject with %d bytes of private data = nil, want an error", most+1)
			}
			req.Reject([]byte("full up"))
		}
	}()
	for range 3 { // the listener keeps working
		_, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		wantError(t, err, "connect", cause, words, `"full up"`)
		var rej *cm.RejectError
		if !errors.As(err, &rej) || rej.Reason != reason || !strings.HasPrefix(string(rej.PrivateData), said) {
			t.Errorf("RejectError = %#v, want reason %d and private data %q", rej, reason, said)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("errors.Is(%v, ECONNREFUSED) = false, want true, as in C", err)
		}
	}
}

func TestPrivateDataTooLong(t *testing.T) {
	ln, d := ends(t)
	asked, accept := 56, 196
	if vmtest.IWARP() {
		asked, accept = 251, 251
	}
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	_, err = r.Connect(within(t, 10*time.Second), nil, &cm.ConnParam{PrivateData: make([]byte, asked+1)})
	var pe *cm.ArgumentError
	wantError(t, err, "connect", nil, fmt.Sprintf("len(PrivateData) is %d", asked+1), fmt.Sprintf("at most %d", asked))
	if !errors.As(err, &pe) || pe.Max != asked {
		t.Errorf("Connect() = %v, want an ArgumentError with Max %d", err, asked)
	}

	// Accept checks the length of the private data. Otherwise the kernel would reject the peer
	// without the program's knowledge. After the error the ID can still accept.
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Accept(context.Background())
		if err != nil {
			accepted <- err
			return
		}
		defer req.Close()
		qp, err := req.QP()
		if err != nil {
			accepted <- err
			return
		}
		_ = qp
		if err := req.ID().Accept(&cm.ConnParam{PrivateData: make([]byte, accept+1)}); !errors.As(err, &pe) || pe.Max != accept {
			accepted <- fmt.Errorf("Accept with %d bytes of private data = %v", accept+1, err)
			return
		}
		conn, err := req.Accept(context.Background(), nil, &cm.ConnParam{PrivateData: make([]byte, accept)})
		if err == nil {
			conn.Close()
		}
		accepted <- err
	}()
	conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	conn.Close()
	if err := <-accepted; err != nil {
		t.Errorf("Accept: %v", err)
	}
}

func TestDepthsBeyondTheDevice(t *testing.T) {
	ln, d := ends(t)
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	if limit := r.Device().Attr().MaxQPRdAtom; limit >= 254 {
		t.Fatalf("MaxQPRdAtom = %d, want less than 254", limit)
	}
	_, err = r.Connect(within(t, 10*time.Second), nil, &cm.ConnParam{ResponderResources: 254})
	wantError(t, err, "connect", nil, "max_qp_rd_atom")
}

func TestBindFailures(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, at(hosts[0].IPv4, 0))
	_, err := cm.Listen(context.Background(), "tcp", ln.Addr().String())
	wantError(t, err, "bind", syscall.EADDRINUSE, ln.Addr().String())
	_, err = cm.Listen(context.Background(), "tcp", "203.0.113.1:0")
	wantError(t, err, "bind", syscall.EADDRNOTAVAIL, "203.0.113.1")
	// If one of two addresses is the unspecified one, the kernel returns another errno.
	all := listen(t, ":0")
	_, err = cm.Listen(context.Background(), "tcp", all.Addr().String())
	wantError(t, err, "bind", syscall.EADDRNOTAVAIL, "another ID uses the port")
	_, err = cm.Listen(context.Background(), "tcp", at(hosts[0].IPv4, all.Addr().Port()))
	wantError(t, err, "bind", syscall.EADDRNOTAVAIL, "an ID uses the port on all addresses")
}
