// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// grhLen is the length of the GRH before the data of a received datagram.
const grhLen = 40

// datagramEnds returns a listener for datagrams on the first host and a dialer on the second.
func datagramEnds(t *testing.T) (*cm.Listener, *cm.Dialer) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln, err := cm.Listen(context.Background(), "udp", at(hosts[0].IPv4, 0))
	if err != nil {
		t.Fatalf("cm.Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln, dialerOf(hosts[1].IPv4)
}

// receive posts one receive on a QP.
func receive(t *testing.T, qp *verbs.QP, buf *verbs.MR) {
	t.Helper()
	if _, err := qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{buf.SGE()}}}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
}

// completion waits for one completion, which must be successful.
func completion(t *testing.T, cq *verbs.CQ) verbs.WC {
	t.Helper()
	var wc [1]verbs.WC
	if _, err := cq.Wait(within(t, 10*time.Second), wc[:]); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	if err := wc[0].Err(); err != nil {
		t.Fatalf("Err: %v", err)
	}
	return wc[0]
}

func alloc(t *testing.T, pd *verbs.PD, n int) *verbs.MR {
	t.Helper()
	buf, err := pd.Alloc(n, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	t.Cleanup(func() { buf.Close() })
	return buf
}

// sendTo sends one datagram.
func sendTo(t *testing.T, qp *verbs.QP, to cm.UDParam, buf *verbs.MR, msg string) {
	t.Helper()
	ah, err := qp.PD().CreateAH(to.AHAttr)
	if err != nil {
		t.Fatalf("CreateAH: %v", err)
	}
	defer ah.Close()
	copy(buf.Bytes(), msg)
	wr := verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{buf.Slice(0, len(msg))},
		AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey}
	if _, err := qp.PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	completion(t, qp.SendCQ())
}

// TestDatagramService looks up a service and sends it a datagram. The service answers to the
// address in the received datagram.
func TestDatagramService(t *testing.T) {
	ln, d := datagramEnds(t)
	answered := make(chan *cm.Request, 1)
	failed := make(chan error, 1)
	go func() {
		req, err := ln.Accept(context.Background())
		if err != nil {
			failed <- err
			return
		}
		if !bytes.HasPrefix(req.PrivateData(), []byte("who?")) || len(req.PrivateData()) != 180 {
			t.Errorf("PrivateData() of the request = %d bytes %q, want 180 bytes \"who?\"", len(req.PrivateData()), req.PrivateData())
		}
		if err := req.Answer(nil, &cm.ConnParam{PrivateData: []byte("me")}); err != nil {
			failed <- err
			return
		}
		answered <- req
	}()
	r, err := d.Resolve(within(t, 10*time.Second), "udp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	qp, err := r.QP()
	if err != nil {
		t.Fatalf("QP: %v", err)
	}
	if qp.Type() != verbs.UD || qp.State() != verbs.QPRTS {
		t.Errorf("QP = %v in state %v, want UD in RTS", qp.Type(), qp.State())
	}
	to, err := r.Lookup(within(t, 10*time.Second), &cm.ConnParam{PrivateData: []byte("who?")})
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	var req *cm.Request
	select {
	case req = <-answered:
	case err := <-failed:
		t.Fatalf("Accept and Answer: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the request was not answered within 10 seconds")
	}
	defer req.Close()
	theirs, err := req.QP()
	if err != nil {
		t.Fatalf("QP: %v", err)
	}
	if !bytes.HasPrefix(to.PrivateData, []byte("me")) || len(to.PrivateData) != 136 || to.QPN != theirs.Num() || to.QKey == 0 {
		t.Errorf("Lookup() = %+v, want \"me\" in 136 bytes and QP %d", to, theirs.Num())
	}

	in, out := alloc(t, theirs.PD(), 4096), alloc(t, qp.PD(), 4096)
	receive(t, theirs, in)
	sendTo(t, qp, to, out, "hello")
	wc := completion(t, theirs.RecvCQ())
	if got := string(in.Bytes()[grhLen:wc.ByteLen]); got != "hello" || wc.SrcQP != qp.Num() {
		t.Fatalf("received %q from QP %d, want \"hello\" from %d", got, wc.SrcQP, qp.Num())
	}

	// The received datagram holds the address of its sender.
	back, err := req.Device().AHAttrFromWC(req.ID().Port(), &wc, in.Bytes()[:grhLen])
	if err != nil {
		t.Fatalf("AHAttrFromWC: %v", err)
	}
	receive(t, qp, out)
	sendTo(t, theirs, cm.UDParam{AHAttr: back, QPN: wc.SrcQP, QKey: to.QKey}, in, "and to you")
	wc = completion(t, qp.RecvCQ())
	if got := string(out.Bytes()[grhLen:wc.ByteLen]); got != "and to you" {
		t.Errorf("answer = %q, want \"and to you\"", got)
	}
}

func TestDatagramServiceRefuses(t *testing.T) {
	ln, d := datagramEnds(t)
	go func() {
		if req, err := ln.Accept(context.Background()); err == nil {
			if err := req.Reject([]byte("go away")); err != nil {
				t.Errorf("Reject: %v", err)
			}
		}
	}()
	lookUp := func(addr string) error {
		r, err := d.Resolve(within(t, 10*time.Second), "udp", addr)
		if err != nil {
			t.Fatalf("Resolve: %v", err)
		}
		defer r.Close()
		_, err = r.Lookup(within(t, 10*time.Second), nil)
		return err
	}
	var ue *cm.UnreachableError
	if err := lookUp(ln.Addr().String()); !errors.As(err, &ue) || ue.Status != cm.SIDRRejected || !bytes.HasPrefix(ue.PrivateData, []byte("go away")) || errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Lookup of a rejecting service = %v, %+v, want SIDRRejected with \"go away\"", err, ue)
	}
	ln.Close()
	if err := lookUp(ln.Addr().String()); !errors.As(err, &ue) || ue.Status != cm.SIDRNoService || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Lookup without a listener = %v, want SIDRNoService and ECONNREFUSED", err)
	}
}

// TestDatagramLookupOfSilence looks up a service that does not answer, until ctx ends.
func TestDatagramLookupOfSilence(t *testing.T) {
	ln, d := datagramEnds(t)
	r, err := d.Resolve(within(t, 10*time.Second), "udp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	if _, err := r.Lookup(within(t, 200*time.Millisecond), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lookup() = %v, want DeadlineExceeded", err)
	}
}

// TestDatagramPrivateData checks the limits of private data, which depend on the messages. A
// call with too much private data has no effect.
func TestDatagramPrivateData(t *testing.T) {
	ln, d := datagramEnds(t)
	r, err := d.Resolve(within(t, 10*time.Second), "udp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	var pe *cm.ArgumentError
	if _, err := r.Lookup(within(t, 10*time.Second), &cm.ConnParam{PrivateData: make([]byte, 181)}); !errors.As(err, &pe) || pe.Max != 180 {
		t.Errorf("Lookup with 181 bytes of private data = %v, want an ArgumentError with Max 180", err)
	}
	looked := make(chan error, 1)
	go func() {
		to, err := r.Lookup(within(t, 10*time.Second), &cm.ConnParam{PrivateData: bytes.Repeat([]byte{1}, 180)})
		if err == nil && !bytes.Equal(to.PrivateData, bytes.Repeat([]byte{2}, 136)) {
			t.Errorf("PrivateData of the answer = %q, want 136 bytes 2", to.PrivateData)
		}
		looked <- err
	}()
	req, err := ln.Accept(within(t, 10*time.Second))
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	defer req.Close()
	if !bytes.Equal(req.PrivateData(), bytes.Repeat([]byte{1}, 180)) {
		t.Errorf("PrivateData() of the request = %q, want 180 bytes 1", req.PrivateData())
	}
	if err := req.Answer(nil, &cm.ConnParam{PrivateData: make([]byte, 137)}); !errors.As(err, &pe) || pe.Max != 136 {
		t.Errorf("Answer with 137 bytes of private data = %v, want an ArgumentError with Max 136", err)
	}
	if err := req.Answer(nil, &cm.ConnParam{PrivateData: bytes.Repeat([]byte{2}, 136)}); err != nil {
		t.Fatalf("Answer: %v", err)
	}
	if err := <-looked; err != nil {
		t.Fatalf("Lookup: %v", err)
	}
}

// TestDatagramsAreNoConnections checks that the calls for connections refuse datagrams.
func TestDatagramsAreNoConnections(t *testing.T) {
	ln, d := datagramEnds(t)
	ctx := within(t, 10*time.Second)
	r, err := d.Resolve(ctx, "udp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	if _, err := r.Connect(ctx, nil, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Connect() = %v, want ErrUnsupported", err)
	}
	if err := r.ID().CreateQP(nil, verbs.QPConfig{Type: verbs.RC}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateQP of an RC QP = %v, want EINVAL", err)
	}
	if _, err := d.Dial(ctx, "udp", ln.Addr().String()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Dial(udp) = %v, want ErrUnsupported", err)
	}
}
