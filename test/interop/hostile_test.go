// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/test/pairing"
	"purerdma/verbs"
)

// hostile is a client that sends arbitrary messages.
type hostile struct {
	conn *cm.Conn
	mr   *verbs.MR // the first 16 bytes are for messages
}

const hostileBuffer = 8192

func connect(t *testing.T, ctx context.Context, path pairing.Path, port int) *hostile {
	t.Helper()
	d := cm.Dialer{
		LocalAddr: cm.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr(path.Client), 0)),
		Param:     &cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7},
	}
	r, err := d.Resolve(ctx, "tcp", netip.AddrPortFrom(netip.MustParseAddr(path.Server), uint16(port)).String())
	if err != nil {
		t.Fatalf("d.Resolve: %v", err)
	}
	t.Cleanup(func() { r.Close() })
	pd, err := r.PD()
	if err != nil {
		t.Fatalf("r.PD: %v", err)
	}
	mr, err := pd.Alloc(hostileBuffer, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
	if err != nil {
		t.Fatalf("pd.Alloc: %v", err)
	}
	for i := range mr.Bytes() {
		mr.Bytes()[i] = 'x'
	}
	if err := r.PostRecv(1, mr.Slice(0, 16)); err != nil {
		t.Fatalf("r.PostRecv: %v", err)
	}
	conn, err := r.Connect(ctx, nil, d.Param)
	if err != nil {
		t.Fatalf("r.Connect: %v", err)
	}
	t.Cleanup(func() {
		conn.Close()
		mr.Close()
	})
	return &hostile{conn: conn, mr: mr}
}

// offer announces memory to the server.
func (h *hostile) offer(ctx context.Context, addr uint64, rkey, size uint32) error {
	msg := h.mr.Bytes()[16:32]
	binary.BigEndian.PutUint64(msg, addr)
	binary.BigEndian.PutUint32(msg[8:], rkey)
	binary.BigEndian.PutUint32(msg[12:], size)
	return h.conn.Send(ctx, h.mr.Slice(16, 16))
}

// awaitEnd waits until the server has disconnected. siw does not report a message that has
// overtaken the accept before more data arrive.
func (h *hostile) awaitEnd(ctx context.Context, t *testing.T) {
	t.Helper()
	for range 10 {
		select {
		case <-h.conn.Done():
			return
		case <-time.After(time.Second):
		}
		if h.conn.PD().Device().Transport() == verbs.TransportIWARP {
			h.conn.Probe(ctx) // a failed probe ends the connection, which closes Done
		}
	}
	t.Errorf("the server has not disconnected")
}

// TestHostileClients runs clients that violate the protocol. Each gets an error, and the server
// and its other clients continue.
func TestHostileClients(t *testing.T) {
	ours, theirs := programs(t)
	data := func(h *hostile) uint64 { return h.mr.Addr() + 64 }
	for _, q := range []string{"-P", "-Pq"} {
		t.Run(q, func(t *testing.T) {
			path, port := paths(t)[0], pairing.NewPort()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			server, err := pairing.StartServer(ctx, ours, path.Server, port, q)
			if err != nil {
				t.Fatalf("pairing.StartServer: %v", err)
			}
			good := func(p pairing.Program) {
				t.Helper()
				out, err := pairing.RunClient(ctx, p, path.Server, port, 20*time.Second, "-I", path.Client, "-V", "-v", "-C", "5")
				if err != nil || out.Status != 0 || out.Stdout != pairing.Lines("ping data: ", 64, 5) {
					t.Errorf("valid client: %v\n%v\nserver: %v", err, out, server.Output())
				}
			}
			good(ours)
			// One client stays connected during the whole test.
			patient, err := pairing.StartClient(ctx, ours, path.Server, port, "-I", path.Client, "-V")
			if err != nil {
				t.Fatalf("pairing.StartClient: %v", err)
			}
			for _, c := range []struct {
				name string
				do   func(h *hostile) error
				want string // part of the server's output
			}{
				{"short message", func(h *hostile) error { return h.conn.Send(ctx, h.mr.Slice(64, 5)) }, "Received bogus data, size 5"},
				{"empty message", func(h *hostile) error { return h.conn.Send(ctx) }, "Received bogus data, size 0"},
				{"long message", func(h *hostile) error { return h.conn.Send(ctx, h.mr.Slice(0, 4096)) }, "cq completion failed status"},
				{"zero length", func(h *hostile) error { return h.offer(ctx, data(h), h.mr.RKey(), 0) }, "offers 0 bytes"},
				{"one too many", func(h *hostile) error { return h.offer(ctx, data(h), h.mr.RKey(), 65) }, "offers 65 bytes for a buffer of 64"},
				{"huge length", func(h *hostile) error { return h.offer(ctx, data(h), h.mr.RKey(), 1<<32-1) }, "offers 4294967295 bytes"},
				{"no NUL", func(h *hostile) error { return h.offer(ctx, data(h), h.mr.RKey(), 64) }, "have no terminating NUL"},
				{"wrong key", func(h *hostile) error { return h.offer(ctx, data(h), h.mr.RKey()^0xabcdef00, 64) }, "remote access error"},
				{"wrong address", func(h *hostile) error { return h.offer(ctx, 0, h.mr.RKey(), 64) }, "remote access error"},
				{"beyond its memory", func(h *hostile) error { return h.offer(ctx, h.mr.Addr()+hostileBuffer-8, h.mr.RKey(), 64) }, "remote access error"},
				{"small sink", func(h *hostile) error {
					h.mr.Bytes()[64+9] = 0
					if err := h.offer(ctx, data(h), h.mr.RKey(), 64); err != nil {
						return err
					}
					if _, err := h.conn.WaitRecv(ctx); err != nil {
						return err
					}
					return h.offer(ctx, data(h), h.mr.RKey(), 9)
				}, "offers 9 bytes for data of 10"},
				{"read-only sink", func(h *hostile) error {
					ro, err := h.conn.PD().Alloc(64, verbs.RemoteRead)
					if err != nil {
						return err
					}
					t.Cleanup(func() { ro.Close() })
					if err := h.offer(ctx, ro.Addr(), ro.RKey(), 64); err != nil {
						return err
					}
					if _, err := h.conn.WaitRecv(ctx); err != nil {
						return err
					}
					return h.offer(ctx, ro.Addr(), ro.RKey(), 64)
				}, "remote access error"},
				{"two messages at once", func(h *hostile) error {
					h.mr.Bytes()[64] = 0
					if err := h.offer(ctx, data(h), h.mr.RKey(), 1); err != nil {
						return err
					}
					return h.offer(ctx, data(h), h.mr.RKey(), 0)
				}, "offers 0 bytes for data of 1"},
				{"silence", func(h *hostile) error { return nil }, ""},
			} {
				t.Run(c.name, func(t *testing.T) {
					const failed = "rping server failed: client "
					before := len(server.Output().Stderr)
					h := connect(t, ctx, path, port)
					// The server may disconnect before the message is acknowledged.
					if err := c.do(h); err != nil {
						t.Logf("client: %v", err)
					}
					if c.want == "" {
						return
					}
					h.awaitEnd(ctx, t)
					said := ""
					for range 1500 {
						if said = server.Output().Stderr[before:]; strings.Contains(said, c.want) && strings.Contains(said, failed) {
							break
						}
						time.Sleep(20 * time.Millisecond)
					}
					if !strings.Contains(said, c.want) || !strings.Contains(said, failed) {
						t.Errorf("the server printed %q, want %q", said, c.want)
					}
					if !server.Alive() {
						t.Fatalf("the server has ended: %v", server.Output())
					}
				})
			}
			good(ours)
			good(theirs)
			if !patient.Alive() {
				t.Errorf("the connected client has ended: %v", patient.Output())
			}
			patient.Signal(syscall.SIGINT)
			if out, err := patient.Wait(30 * time.Second); err != nil || out.Status != 130 {
				t.Errorf("the connected client: %v, %v, want status 130", err, out)
			}
			server.Signal(syscall.SIGTERM)
			if out, err := server.Wait(30 * time.Second); err != nil || out.Status != 128+15 {
				t.Errorf("server: %v, %v, want status 143", err, out)
			}
		})
	}
}

// TestHostileServers runs clients against servers that violate the protocol. The servers are in
// the test, because the program has no such mode.
func TestHostileServers(t *testing.T) {
	ours, _ := programs(t)
	path := paths(t)[0]
	for _, c := range []struct {
		name string
		size int // size of the answer, -1 to disconnect instead
		want string
	}{
		{"hangs up", -1, "the server disconnected after 0 of 1 pings"},
		{"short message", 3, "Received bogus data, size 3"},
		{"long message", 64, "cq completion failed status"},
		{"go-ahead without data", 16, "data mismatch!"},
	} {
		for _, q := range []string{"-V", "-Vq"} {
			t.Run(c.name+q, func(t *testing.T) {
				err := repeatFaults(t, func(ctx context.Context) error { return meetHostileServer(ctx, path, ours, q, c.size, c.want) })
				if err != nil {
					t.Errorf("meetHostileServer: %v", err)
				}
			})
		}
	}
}

// meetHostileServer runs a client with one flag against serveBadly, and looks for a message of the client.
func meetHostileServer(ctx context.Context, path pairing.Path, program pairing.Program, flag string, size int, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ln, err := cm.Listen(ctx, "tcp", netip.AddrPortFrom(netip.MustParseAddr(path.Server), 0).String())
	if err != nil {
		return err
	}
	defer ln.Close()
	client, err := pairing.Start(ctx, program, "-c", "-a", path.Server, "-I", path.Client, "-p", fmt.Sprint(ln.Addr().Port()), "-C", "1", flag)
	if err != nil {
		return err
	}
	if err := serveBadly(ctx, ln, size); err != nil {
		return fmt.Errorf("serveBadly: %w", err)
	}
	out, err := client.Wait(30 * time.Second)
	if err != nil || out.Status != 255 || !strings.Contains(out.Stderr, want) {
		return fmt.Errorf("client: %v, %v\nwant %q", err, out, want)
	}
	return nil
}

// serveBadly answers each message of one client with a message of the given size.
func serveBadly(ctx context.Context, ln *cm.Listener, size int) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		return err
	}
	mr, err := pd.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	if err := req.PostRecv(0, mr.Slice(0, 16)); err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		if _, err := conn.WaitRecv(ctx); err != nil || size < 0 {
			return nil // the client has ended
		}
		if err := conn.PostRecv(0, mr.Slice(0, 16)); err != nil {
			return nil
		}
		if err := conn.Send(ctx, mr.Slice(64, size)); err != nil {
			return nil
		}
	}
}
