// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// serveSecrets accepts connections until the listener is closed. It registers a secret for
// each client, and sends its address to lends.
func serveSecrets(ctx context.Context, ln *cm.Listener, lends chan<- verbs.RemoteMemory) {
	for n := 0; ; n++ {
		req, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		go keepSecret(ctx, req, fmt.Sprintf("secret of client %d", n), lends)
	}
}

func keepSecret(ctx context.Context, req *cm.Request, secret string, lends chan<- verbs.RemoteMemory) error {
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		return err
	}
	mr, err := pd.Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		return err
	}
	defer mr.Close()
	copy(mr.Bytes(), secret)
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	lends <- mr.Remote()
	_, err = conn.Wait(ctx)
	return err
}

// secretRead connects two clients to a server. The second client reads the memory that the
// server has registered for the first. It has the key, which a real client would have to
// guess.
func secretRead(t *testing.T, ln *cm.Listener, d *cm.Dialer) (string, error) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	lends := make(chan verbs.RemoteMemory, 2)
	go serveSecrets(ctx, ln, lends)
	alice, err := d.Dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer alice.Close()
	hers := <-lends
	if got, err := readSecret(ctx, alice, hers); err != nil || got != "secret of client 0" {
		t.Fatalf("readSecret of the client's own memory = %q, %v", got, err)
	}
	mallory, err := d.Dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer mallory.Close()
	<-lends
	return readSecret(ctx, mallory, hers)
}

func readSecret(ctx context.Context, conn *cm.Conn, from verbs.RemoteMemory) (string, error) {
	buf, err := conn.PD().Alloc(64, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return "", err
	}
	defer buf.Close()
	n := len("secret of client 0")
	if err := conn.Read(ctx, buf.Slice(0, n), from); err != nil {
		return "", err
	}
	return string(buf.Bytes()[:n]), nil
}

// wantDenied checks that the peer's device refused a READ.
func wantDenied(t *testing.T, got string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("READ = %q, want an access error", got)
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("READ = %v, want an access error before the deadline", err)
	}
}

// TestClientsDoNotShareMemory checks that a client with the address and the key of another
// client's memory cannot read it. If the server shares a PD among its connections, the client
// can.
func TestClientsDoNotShareMemory(t *testing.T) {
	for name, machine := range fakeMachines {
		t.Run(name, func(t *testing.T) {
			n := newFakeNet(t, machine(), cm.ListenConfig{})
			got, err := secretRead(t, n.ln, n.d)
			wantDenied(t, got, err)
			n.close(t)
			n = newFakeNet(t, machine(), cm.ListenConfig{PD: (*verbs.Device).DefaultPD})
			if got, err := secretRead(t, n.ln, n.d); err != nil || got != "secret of client 0" {
				t.Errorf("READ with a shared PD = %q, %v, want the secret", got, err)
			}
			n.close(t)
		})
	}
}

// TestPDOfAConnection checks that the QP and all memory of a connection share one PD, which is
// closed with the connection. Memory that is closed later keeps the PD in the kernel until
// then.
func TestPDOfAConnection(t *testing.T) {
	for name, machine := range fakeMachines {
		t.Run(name, func(t *testing.T) {
			n := newFakeNet(t, machine(), cm.ListenConfig{})
			go echo(n.ln)
			r, err := n.d.Resolve(within(t, 10*time.Second), "tcp", "10.0.0.1:7")
			if err != nil {
				t.Fatalf("Resolve: %v", err)
			}
			defer r.Close()
			pd, err := r.PD()
			if err != nil {
				t.Fatalf("PD: %v", err)
			}
			mr, err := pd.Alloc(4096, verbs.LocalWrite)
			if err != nil {
				t.Fatalf("Alloc: %v", err)
			}
			conn, err := r.Connect(within(t, 10*time.Second), nil, nil)
			if err != nil {
				t.Fatalf("Connect: %v", err)
			}
			if again, err := r.PD(); again != pd || err != nil || conn.PD() != pd {
				t.Errorf("PD() = %p, then %p, %v; Conn.PD() = %p, want one PD", pd, again, err, conn.PD())
			}
			shared, err := conn.Device().DefaultPD()
			if err != nil || shared == pd {
				t.Errorf("DefaultPD() = the PD of the connection, %v, want another PD", err)
			}
			say(t, conn, "hello")
			conn.Close()
			if _, err := pd.Alloc(4096, verbs.LocalWrite); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Alloc after Close = %v, want net.ErrClosed", err)
			}
			if copy(mr.Bytes(), "still there") == 0 {
				t.Error("the memory of the PD was freed with the connection")
			}
			wantLeft(t, n.k, "device", true)
			if err := mr.Close(); err != nil {
				t.Errorf("Close of the memory = %v, want nil", err)
			}
			n.close(t)
		})
	}
}

// TestPDOption checks that connections get the PD that the program chooses, and do not close
// it.
func TestPDOption(t *testing.T) {
	n := newFakeNet(t, fakeMachines["rxe"](), cm.ListenConfig{})
	go echo(n.ln)
	var pd *verbs.PD
	n.d.PD = func(dev *verbs.Device) (_ *verbs.PD, err error) {
		if pd == nil {
			pd, err = dev.AllocPD()
		}
		return pd, err
	}
	for range 2 {
		conn, err := n.d.Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7")
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		if conn.PD() != pd {
			t.Error("PD() is not the PD of the option")
		}
		say(t, conn, "hello")
		conn.Close()
	}
	if mr, err := pd.Alloc(64, verbs.LocalWrite); err != nil {
		t.Errorf("Alloc after the connections' Close: %v", err)
	} else {
		mr.Close()
	}
	if err := pd.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	refusal := errors.New("no PD for this")
	n.d.PD = func(*verbs.Device) (*verbs.PD, error) { return nil, refusal }
	if _, err := n.d.Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7"); !errors.Is(err, refusal) {
		t.Errorf("Dial = %v, want the error of the option", err)
	}
	n.close(t)
}

// TestKeyEndsWithTheRequest checks that a client cannot access the example's memory after it
// has returned it, while the connection is still established.
func TestKeyEndsWithTheRequest(t *testing.T) {
	for name, machine := range fakeMachines {
		t.Run(name, func(t *testing.T) {
			n := newFakeNet(t, machine(), cm.ListenConfig{})
			keyEnds(t, n.ln, n.d)
			n.close(t)
		})
	}
}

// keyEnds runs the one-sided example twice on one connection. It then reads with a key of
// returned memory.
func keyEnds(t *testing.T, ln *cm.Listener, d *cm.Dialer) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	offered := make(chan struct{})
	go func() {
		defer close(offered)
		if req, err := ln.Accept(ctx); err == nil {
			offer(ctx, req) // its connection breaks
		}
	}()
	conn, err := d.Dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	for range 2 {
		if got, err := reach(ctx, conn); err != nil || got != "read me" {
			t.Fatalf("reach() = %q, %v, want \"read me\"", got, err)
		}
	}
	buf, err := conn.PD().Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	defer buf.Close()
	defer conn.Close() // before the memory is closed
	w := borrow(t, ctx, conn, buf)
	if err = conn.Read(ctx, buf.Slice(0, 7), w); err != nil {
		t.Fatalf("conn.Read: %v", err)
	}
	// The peer closes the memory after this message. Nothing reports the time of that. After
	// the next request, the memory may have the same key again, because mlx5_ib keeps keys in
	// a cache.
	if err := conn.Send(ctx, buf.Slice(0, 1)); err != nil {
		t.Fatalf("conn.Send: %v", err)
	}
	for err == nil {
		err = conn.Read(ctx, buf.Slice(0, 7), w)
	}
	wantDenied(t, string(buf.Bytes()[:7]), err)
	conn.Close()
	<-offered
}

// borrow requests memory, like reach, and returns its address.
func borrow(t *testing.T, ctx context.Context, conn *cm.Conn, buf *verbs.MR) (w verbs.RemoteMemory) {
	t.Helper()
	if err := conn.PostRecv(1, buf.Slice(200, msgSize)); err != nil {
		t.Fatalf("conn.PostRecv: %v", err)
	}
	if err := conn.Send(ctx, buf.Slice(0, 1)); err != nil {
		t.Fatalf("conn.Send: %v", err)
	}
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		t.Fatalf("conn.WaitRecv: %v", err)
	}
	if err := w.UnmarshalBinary(buf.Bytes()[200:][:wc.ByteLen]); err != nil {
		t.Fatalf("UnmarshalBinary: %v", err)
	}
	return w
}
