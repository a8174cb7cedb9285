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

// grhLen is what stands before the data of a received datagram.
const grhLen = 40

// datagramEnds returns a listener for datagrams on the first end and a dialer on
// the second.
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

// completion waits for one completion, which must be a success.
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

// TestDatagramService looks a service up, sends it a datagram, and gets the answer
// by the address that came with the datagram.
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
			t.Errorf("the request carries %d bytes: %q", len(req.PrivateData()), req.PrivateData())
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
		t.Errorf("the QP is %v in %v", qp.Type(), qp.State())
	}
	to, err := r.Lookup(within(t, 10*time.Second), &cm.ConnParam{PrivateData: []byte("who?")})
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	var req *cm.Request
	select {
	case req = <-answered:
	case err := <-failed:
		t.Fatal(err)
	case <-time.After(10 * time.Second):
		t.Fatal("the request was not answered")
	}
	defer req.Close()
	theirs, err := req.QP()
	if err != nil {
		t.Fatalf("QP: %v", err)
	}
	if !bytes.HasPrefix(to.PrivateData, []byte("me")) || len(to.PrivateData) != 136 || to.QPN != theirs.Num() || to.QKey == 0 {
		t.Errorf("the answer is %+v, the QP is %d", to, theirs.Num())
	}

	in, out := alloc(t, theirs.PD(), 4096), alloc(t, qp.PD(), 4096)
	receive(t, theirs, in)
	sendTo(t, qp, to, out, "hello")
	wc := completion(t, theirs.RecvCQ())
	if got := string(in.Bytes()[grhLen:wc.ByteLen]); got != "hello" || wc.SrcQP != qp.Num() {
		t.Fatalf("got %q from QP %d, want that of %d", got, wc.SrcQP, qp.Num())
	}

	// The way back is in what came.
	back, err := req.Device().AHAttrFromWC(req.ID().Port(), &wc, in.Bytes()[:grhLen])
	if err != nil {
		t.Fatalf("AHAttrFromWC: %v", err)
	}
	receive(t, qp, out)
	sendTo(t, theirs, cm.UDParam{AHAttr: back, QPN: wc.SrcQP, QKey: to.QKey}, in, "and to you")
	wc = completion(t, qp.RecvCQ())
	if got := string(out.Bytes()[grhLen:wc.ByteLen]); got != "and to you" {
		t.Errorf("got back %q", got)
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
		t.Errorf("rejected: %v, %+v", err, ue)
	}
	ln.Close()
	if err := lookUp(ln.Addr().String()); !errors.As(err, &ue) || ue.Status != cm.SIDRNoService || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestDatagramLookupOfSilence: nobody answers, and ctx ends the wait.
func TestDatagramLookupOfSilence(t *testing.T) {
	ln, d := datagramEnds(t)
	r, err := d.Resolve(within(t, 10*time.Second), "udp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	if _, err := r.Lookup(within(t, 200*time.Millisecond), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestDatagramPrivateData: the limits are those of the messages, and what is too
// long harms nothing.
func TestDatagramPrivateData(t *testing.T) {
	ln, d := datagramEnds(t)
	r, err := d.Resolve(within(t, 10*time.Second), "udp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	var pe *cm.ArgumentError
	if _, err := r.Lookup(within(t, 10*time.Second), &cm.ConnParam{PrivateData: make([]byte, 181)}); !errors.As(err, &pe) || pe.Max != 180 {
		t.Errorf("181 bytes: %v", err)
	}
	looked := make(chan error, 1)
	go func() {
		to, err := r.Lookup(within(t, 10*time.Second), &cm.ConnParam{PrivateData: bytes.Repeat([]byte{1}, 180)})
		if err == nil && !bytes.Equal(to.PrivateData, bytes.Repeat([]byte{2}, 136)) {
			t.Errorf("got %q", to.PrivateData)
		}
		looked <- err
	}()
	req, err := ln.Accept(within(t, 10*time.Second))
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	defer req.Close()
	if !bytes.Equal(req.PrivateData(), bytes.Repeat([]byte{1}, 180)) {
		t.Errorf("got %q", req.PrivateData())
	}
	if err := req.Answer(nil, &cm.ConnParam{PrivateData: make([]byte, 137)}); !errors.As(err, &pe) || pe.Max != 136 {
		t.Errorf("137 bytes: %v", err)
	}
	if err := req.Answer(nil, &cm.ConnParam{PrivateData: bytes.Repeat([]byte{2}, 136)}); err != nil {
		t.Fatalf("Answer: %v", err)
	}
	if err := <-looked; err != nil {
		t.Fatal(err)
	}
}

// TestDatagramsAreNoConnections: the calls of the other kind say so.
func TestDatagramsAreNoConnections(t *testing.T) {
	ln, d := datagramEnds(t)
	ctx := within(t, 10*time.Second)
	r, err := d.Resolve(ctx, "udp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	if _, err := r.Connect(ctx, nil, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Connect: %v", err)
	}
	if err := r.ID().CreateQP(nil, verbs.QPConfig{Type: verbs.RC}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an RC QP: %v", err)
	}
	if _, err := d.Dial(ctx, "udp", ln.Addr().String()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Dial: %v", err)
	}
}
