// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/test/connectx/prm"
	"purerdma/ucma"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// eceVendor is the vendor of ConnectX devices.
const eceVendor = 0x15b3

// twoConnectX returns a machine with two software ConnectX devices, and the ECE options of
// each device.
func twoConnectX(t *testing.T) (*cmtest.Kernel, verbs.ECE) {
	t.Helper()
	k := cmtest.New(inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "mlx5_0", "mlx5_1"))
	dev, err := k.Host().Open("mlx5_0")
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("AllocPD: %v", err)
	}
	defer pd.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	defer qp.Close()
	all, err := qp.QueryECE()
	if err != nil || all.VendorID != eceVendor || all.Options&prm.ECETrigger == 0 || all.Options == prm.ECETrigger {
		t.Fatalf("QueryECE() = %+v, %v; want several options of vendor %#x", all, err, eceVendor)
	}
	return k, all
}

// eceEnd is one end of a connection. The caller closes conn.
type eceEnd struct {
	conn *cm.Conn
	err  error
}

// acceptECE accepts one connection.
func acceptECE(t *testing.T, k *cmtest.Kernel) <-chan eceEnd {
	t.Helper()
	ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
	ends := make(chan eceEnd, 1)
	ctx := within(t, 20*time.Second)
	go func() {
		req, err := ln.Accept(ctx)
		if err != nil {
			ends <- eceEnd{err: err}
			return
		}
		conn, err := req.Accept(ctx, nil, nil)
		ends <- eceEnd{conn, err}
	}()
	return ends
}

func dialECE(t *testing.T, k *cmtest.Kernel) *cm.Conn {
	t.Helper()
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	conn, err := d.Dial(within(t, 20*time.Second), "tcp", "10.0.0.1:7")
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// wantECE checks the options of a connection's QP, and the options that its peer offered.
func wantECE(t *testing.T, name string, conn *cm.Conn, qp, peer verbs.ECE) {
	t.Helper()
	if got, err := conn.QP().QueryECE(); err != nil || got != qp {
		t.Errorf("%s: QueryECE() = %+v, %v, want %+v", name, got, err, qp)
	}
	if got := conn.ID().RemoteECE(); got != peer {
		t.Errorf("%s: RemoteECE() = %+v, want %+v", name, got, peer)
	}
}

// TestECEByDefault checks that two devices agree on their options without help from the
// program.
func TestECEByDefault(t *testing.T) {
	k, all := twoConnectX(t)
	ends := acceptECE(t, k)
	client, server := dialECE(t, k), <-ends
	if server.err != nil {
		t.Fatalf("Accept: %v", server.err)
	}
	defer server.conn.Close()
	wantECE(t, "client", client, all, all)
	wantECE(t, "server", server.conn, all, all)
}

// TestECEWithoutAny checks that devices without ECE connect, and offer nothing.
func TestECEWithoutAny(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	ends := acceptECE(t, k)
	client, server := dialECE(t, k), <-ends
	if server.err != nil {
		t.Fatalf("Accept: %v", server.err)
	}
	defer server.conn.Close()
	for _, c := range []*cm.Conn{client, server.conn} {
		if _, err := c.QP().QueryECE(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("QueryECE() = %v, want ErrUnsupported", err)
		}
		if got := c.ID().RemoteECE(); got != (verbs.ECE{}) {
			t.Errorf("RemoteECE() = %+v, want none", got)
		}
	}
}

// eceOffers returns options that a peer may offer, with the options that the device then
// grants.
func eceOffers(all verbs.ECE) map[string]struct{ offer, granted verbs.ECE } {
	const trigger = prm.ECETrigger
	v := func(options uint32) verbs.ECE { return verbs.ECE{VendorID: eceVendor, Options: options} }
	return map[string]struct{ offer, granted verbs.ECE }{
		"all":               {all, all},
		"some":              {v(trigger | 1), v(trigger | 1)},
		"known and unknown": {v(trigger | 0x81), v(trigger | 1)},
		"unknown":           {v(0x80), v(0)},
		"none":              {v(0), v(0)},
		"other vendor":      {verbs.ECE{VendorID: 0x2c9, Options: all.Options}, v(0)},
	}
}

// eceStranger is a peer that uses the connection manager directly, so that it can offer any
// options.
type eceStranger struct {
	t *testing.T
	f *ucma.File
}

func newECEStranger(t *testing.T, k *cmtest.Kernel) *eceStranger {
	t.Helper()
	f, err := ucma.OpenOn(k, nil)
	if err != nil {
		t.Fatalf("ucma.OpenOn: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return &eceStranger{t, f}
}

func (s *eceStranger) id() uint32 {
	s.t.Helper()
	id, err := s.f.CreateID(1, abi.RDMA_PS_TCP, 0)
	s.must(err)
	return id
}

func (s *eceStranger) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("unexpected error: %v", err)
	}
}

func (s *eceStranger) event(typ uint32) *ucma.Event {
	s.t.Helper()
	for {
		ev, err := s.f.GetEvent(within(s.t, 20*time.Second))
		s.must(err)
		if ev.Type == typ {
			return ev
		}
	}
}

// connect sends a request with an offer, and returns the offer of the response.
func (s *eceStranger) connect(offer verbs.ECE) verbs.ECE {
	s.t.Helper()
	id := s.id()
	s.must(s.f.ResolveAddr(id, ucma.Addr{}, ucma.IP(netip.MustParseAddrPort("10.0.0.1:7")), 1000))
	s.must(s.f.ResolveRoute(id, 1000))
	s.must(s.f.Connect(id, &abi.UcmConnParam{QPNum: 0x4711}, abi.UcmECE{VendorID: offer.VendorID, AttrMod: offer.Options}))
	ev := s.event(abi.RDMA_CM_EVENT_CONNECT_RESPONSE)
	s.must(s.f.Establish(id))
	return verbs.ECE{VendorID: ev.ECE.VendorID, Options: ev.ECE.AttrMod}
}

// TestECEOfARequest checks that a listener grants the options of a request that its device
// supports. No offer makes the connection fail.
func TestECEOfARequest(t *testing.T) {
	_, all := twoConnectX(t)
	for name, tc := range eceOffers(all) {
		t.Run(name, func(t *testing.T) {
			k, _ := twoConnectX(t)
			ends := acceptECE(t, k)
			answer := newECEStranger(t, k).connect(tc.offer)
			server := <-ends
			if server.err != nil {
				t.Fatalf("Accept: %v", server.err)
			}
			defer server.conn.Close()
			wantECE(t, "server", server.conn, tc.granted, tc.offer)
			if want := (verbs.ECE{VendorID: tc.offer.VendorID, Options: tc.granted.Options}); answer != want {
				t.Errorf("ECE of the response = %+v, want %+v", answer, want)
			}
		})
	}
	t.Run("no ECE", func(t *testing.T) {
		k, _ := twoConnectX(t)
		ends := acceptECE(t, k)
		answer := newECEStranger(t, k).connect(verbs.ECE{})
		server := <-ends
		if server.err != nil {
			t.Fatalf("Accept: %v", server.err)
		}
		defer server.conn.Close()
		wantECE(t, "server", server.conn, all, verbs.ECE{})
		if want := (verbs.ECE{Options: all.Options}); answer != want { // like librdmacm
			t.Errorf("ECE of the response = %+v, want %+v", answer, want)
		}
	})
}

// serve answers one request with an offer, and returns the offer of the request.
func (s *eceStranger) serve(offer verbs.ECE) <-chan verbs.ECE {
	s.t.Helper()
	id := s.id()
	s.must(s.f.Bind(id, ucma.IP(netip.MustParseAddrPort("10.0.0.1:7"))))
	s.must(s.f.Listen(id, 1))
	offers := make(chan verbs.ECE, 1)
	go func() {
		defer close(offers)
		ev, err := s.f.GetEvent(within(s.t, 20*time.Second))
		if err != nil || ev.Type != abi.RDMA_CM_EVENT_CONNECT_REQUEST {
			s.t.Errorf("GetEvent() = %+v, %v, want a request", ev, err)
			return
		}
		offers <- verbs.ECE{VendorID: ev.ECE.VendorID, Options: ev.ECE.AttrMod}
		if err := s.f.Accept(ev.ID, 2, &abi.UcmConnParam{QPNum: 0x4711}, abi.UcmECE{VendorID: offer.VendorID, AttrMod: offer.Options}); err != nil {
			s.t.Errorf("Accept: %v", err)
		}
	}()
	return offers
}

// TestECEOfAResponse checks that a client offers its device's options, and uses the options of
// the response that the device supports. No response makes the connection fail.
func TestECEOfAResponse(t *testing.T) {
	_, all := twoConnectX(t)
	offers := eceOffers(all)
	offers["no ECE"] = struct{ offer, granted verbs.ECE }{verbs.ECE{}, verbs.ECE{VendorID: eceVendor}}
	for name, tc := range offers {
		t.Run(name, func(t *testing.T) {
			k, _ := twoConnectX(t)
			asked := newECEStranger(t, k).serve(tc.offer)
			client := dialECE(t, k)
			if got := <-asked; got != all {
				t.Errorf("ECE of the request = %+v, want %+v", got, all)
			}
			wantECE(t, "client", client, tc.granted, tc.offer)
		})
	}
}

// TestECERefusedByTheDevice checks that a device that refuses the peer's options connects
// without options.
func TestECERefusedByTheDevice(t *testing.T) {
	k, all := twoConnectX(t)
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name == "IB_USER_VERBS_EX_CMD_MODIFY_QP" { // the command for transitions with options
			return syscall.EINVAL
		}
		return nil
	})
	ends := acceptECE(t, k)
	client, server := dialECE(t, k), <-ends
	if server.err != nil {
		t.Fatalf("Accept: %v", server.err)
	}
	defer server.conn.Close()
	none := verbs.ECE{VendorID: eceVendor}
	wantECE(t, "client", client, none, none)
	wantECE(t, "server", server.conn, none, all)
}
