// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// The peers of these tests send arbitrary bytes as private data, in every length that a
// message can hold. The data arrives unchanged. On InfiniBand and RoCE it is padded with zeros
// to the size of the message. The library does not interpret it.

// arrives returns the private data that a peer receives in a message with size bytes of it.
func arrives(sent []byte, size int) []byte { return padded(string(sent), size) }

// refuses returns the private data that a peer receives in a rejection. On InfiniBand and
// RoCE, a rejection whose private data is only zeros has none.
func refuses(sent []byte, size int) []byte {
	if !vmtest.IWARP() && len(bytes.TrimRight(sent, "\x00")) == 0 {
		return nil
	}
	return arrives(sent, size)
}

// eachLength calls fn for each length up to n, in four goroutines.
func eachLength(n int, fn func(length int) error) error {
	var wg sync.WaitGroup
	const workers = 4
	errs := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			for length := i; length <= n && errs[i] == nil; length += workers {
				if err := fn(length); err != nil {
					errs[i] = fmt.Errorf("%d bytes: %w", length, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// answer is the answer to a request.
type answer struct {
	bytes  []byte
	refuse bool
}

func same(what string, got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s has %d bytes of private data %x, want %d: %x", what, len(got), got, len(want), want)
	}
	return nil
}

// TestGarbageInRequestsAndAnswers uses blocking calls on both sides, and one listener.
func TestGarbageInRequestsAndAnswers(t *testing.T) {
	ln, d := ends(t)
	requests, replies, rejects := vmtest.PrivateData(56), vmtest.PrivateData(196), vmtest.PrivateData(148)
	var wanted sync.Map // the answers by the private data of the request
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			for {
				req, err := ln.Accept(t.Context())
				if err != nil {
					return nil // closed
				}
				got := req.PrivateData()
				how, ok := wanted.Load(string(got))
				if !ok {
					req.Close()
					return fmt.Errorf("request with %d bytes of private data that no client has sent: %x", len(got), got)
				}
				a := how.(answer)
				if a.refuse {
					if err := req.Reject(a.bytes); err != nil {
						return err
					}
					continue
				}
				p := cm.ConnParam{PrivateData: a.bytes}
				conn, err := req.Accept(within(t, 10*time.Second), nil, &p)
				if left := new(cm.DisconnectedError); errors.As(err, &left) {
					continue // the client gets the answer before the confirmation is handled, and may leave then
				}
				if err != nil {
					return err
				}
				go func() {
					conn.Wait(context.Background())
					conn.Close()
				}()
			}
		}()
	}()
	var arrived, lost atomic.Int32 // rejections with private data, and without it
	connect := func(sent, back []byte, refuse bool) error {
		wanted.Store(string(arrives(sent, 56)), answer{back, refuse})
		p := cm.ConnParam{PrivateData: sent}
		from := *d
		from.Param = &p
		conn, err := from.Dial(within(t, 20*time.Second), "tcp", ln.Addr().String())
		if refuse {
			var rej *cm.RejectError
			if len(back) == 0 && isLostRejection(err) {
				return nil
			}
			if !errors.As(err, &rej) {
				return fmt.Errorf("Dial of a refusing server = %v, want a RejectError", err)
			}
			if vmtest.IWARP() && len(back) > 0 && len(rej.PrivateData) == 0 {
				lost.Add(1) // the end of the TCP connection was handled first (docs/reference/driver-faults.md)
				return nil
			}
			arrived.Add(1)
			return same("the rejection", rej.PrivateData, refuses(back, 148))
		}
		if err != nil {
			return err
		}
		defer conn.Close()
		return same("the answer", conn.PrivateData(), arrives(back, 196))
	}
	if err := eachLength(requests, func(n int) error { return connect(vmtest.Garbage(n), vmtest.Garbage(n), false) }); err != nil {
		t.Errorf("requests: %v", err)
	}
	if err := eachLength(replies, func(n int) error { return connect(vmtest.Garbage(20), vmtest.Garbage(n), false) }); err != nil {
		t.Errorf("answers: %v", err)
	}
	if err := eachLength(rejects, func(n int) error { return connect(vmtest.Garbage(20), vmtest.Garbage(n), true) }); err != nil {
		t.Errorf("rejections: %v", err)
	}
	if arrived.Load() <= lost.Load() {
		t.Errorf("rejections with private data = %d, without = %d, want more with it", arrived.Load(), lost.Load())
	}
	ln.Close()
	if err := <-served; err != nil {
		t.Errorf("server: %v", err)
	}
}

// TestGarbageOnIDs checks the private data in the events of IDs, and that the connection
// works.
func TestGarbageOnIDs(t *testing.T) {
	r := newRig(t)
	for _, n := range []int{0, 1, 2, 55, vmtest.PrivateData(56)} {
		sent, back := vmtest.Garbage(n), vmtest.Garbage(vmtest.PrivateData(196)-n)
		client := r.withQP(r.resolved())
		r.ok(client.Connect(&cm.ConnParam{PrivateData: sent, InitiatorDepth: 1, ResponderResources: 1}))
		ev := expect(t, r.server, cm.EventConnectRequest)
		ev.Ack()
		r.ok(same("the request", ev.Conn.PrivateData, arrives(sent, 56)))
		server := r.withQP(ev.ID)
		r.ok(server.Accept(&cm.ConnParam{PrivateData: back, InitiatorDepth: 1, ResponderResources: 1}))
		r.ok(same("the answer", r.want(r.client, client, cm.EventEstablished, 0).Conn.PrivateData, arrives(back, 196)))
		r.want(r.server, server, cm.EventEstablished, 0)
		r.exchange(client, server)
		r.exchange(server, client)
		client.Close()
		r.want(r.server, server, cm.EventDisconnected, 0)
		server.Close()
	}
}

// TestDatagramGarbage checks the private data of look-ups, their answers and their rejections.
func TestDatagramGarbage(t *testing.T) {
	ln, d := datagramEnds(t)
	var wanted sync.Map
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			for {
				req, err := ln.Accept(context.Background())
				if err != nil {
					return nil // closed
				}
				how, ok := wanted.Load(string(req.PrivateData()))
				if !ok {
					req.Close()
					return fmt.Errorf("look-up with private data that no client has sent: %x", req.PrivateData())
				}
				if a := how.(answer); a.refuse {
					err = req.Reject(a.bytes)
				} else {
					err = req.Answer(nil, &cm.ConnParam{PrivateData: a.bytes})
					req.Close()
				}
				if err != nil {
					return err
				}
			}
		}()
	}()
	lookUp := func(sent, back []byte, refuse bool) error {
		wanted.Store(string(arrives(sent, 180)), answer{back, refuse})
		r, err := d.Resolve(within(t, 20*time.Second), "udp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer r.Close()
		to, err := r.Lookup(within(t, 20*time.Second), &cm.ConnParam{PrivateData: sent})
		var ue *cm.UnreachableError
		switch {
		case refuse && errors.As(err, &ue):
			return same("the rejection", ue.PrivateData, refuses(back, 136))
		case refuse:
			return fmt.Errorf("Lookup at a refusing server = %v, want an UnreachableError", err)
		case err != nil:
			return err
		}
		return same("the answer", to.PrivateData, arrives(back, 136))
	}
	if err := eachLength(180, func(n int) error { return lookUp(vmtest.Garbage(n), vmtest.Garbage(min(n, 136)), false) }); err != nil {
		t.Errorf("look-ups: %v", err)
	}
	if err := eachLength(136, func(n int) error { return lookUp(vmtest.Garbage(20), vmtest.Garbage(n), true) }); err != nil {
		t.Errorf("rejections: %v", err)
	}
	ln.Close()
	if err := <-served; err != nil {
		t.Errorf("server: %v", err)
	}
}

// misinform accepts a request, and answers the first message with data.
func misinform(ctx context.Context, req *cm.Request, data []byte) error {
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		return err
	}
	buf, err := pd.Alloc(2*msgSize, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer buf.Close()
	if err := req.PostRecv(1, buf.Slice(0, msgSize)); err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.WaitRecv(ctx); err != nil {
		return err
	}
	// The client may have left before its device has acknowledged the answer.
	conn.Send(ctx, buf.Slice(msgSize, copy(buf.Bytes()[msgSize:], data)))
	conn.Wait(ctx)
	return nil
}

func encoded(r verbs.RemoteMemory) []byte {
	b, _ := r.MarshalBinary()
	return b
}

// TestGarbageAsRemoteMemory interprets garbage in a message as the address of remote memory.
// The program finds no memory there. Its device or its own checks report an error.
func TestGarbageAsRemoteMemory(t *testing.T) {
	ln, d := ends(t)
	for _, tc := range []struct {
		name string
		data []byte
	}{
		{"nothing", nil},
		{"too little", vmtest.Garbage(19)},
		{"random", vmtest.Garbage(20)},
		{"memory of no bytes", encoded(verbs.RemoteMemory{})},
		{"memory too small", encoded(verbs.RemoteMemory{Addr: 1 << 12, RKey: 1, Length: 4095})},
		{"everything", bytes.Repeat([]byte{0xff}, 20)},
		{"an unknown key", encoded(verbs.RemoteMemory{Addr: 1 << 12, RKey: 0xabcdef01, Length: 1 << 31})},
	} {
		accepted := make(chan error, 1)
		go func() {
			req, err := ln.Accept(within(t, 10*time.Second))
			if err != nil {
				accepted <- err
				return
			}
			accepted <- misinform(within(t, 10*time.Second), req, tc.data)
		}()
		conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		if got, err := reach(within(t, 10*time.Second), conn); err == nil {
			t.Errorf("reach() with %s = %q, want an error", tc.name, got)
		} else if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reach() with %s = %v, want an error before the deadline", tc.name, err)
		}
		conn.Close()
		if err := <-accepted; err != nil {
			t.Errorf("misinform with %s: %v", tc.name, err)
		}
	}
}
