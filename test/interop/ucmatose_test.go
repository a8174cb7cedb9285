// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/test/pairing"
	"purerdma/verbs"
)

// ucmatoseLines returns the output of a successful ucmatose.
func ucmatoseLines(flags string) (server, client string) {
	server, client = "cmatose: starting server\n", "cmatose: starting client\ncmatose: connecting\n"
	if !strings.Contains(flags, "-C 0") && !strings.Contains(flags, "-S 0") {
		server += "initiating data transfers\ncompleting sends\nreceiving data transfers\ndata transfers complete\n"
		client += "receiving data transfers\nsending replies\ndata transfers complete\n"
	}
	if strings.Contains(flags, "-m") {
		server += "migrating to new event channel\n"
		client += "migrating to new event channel\n"
	}
	const end = "test complete\nreturn status 0\n"
	return server + "cmatose: disconnecting\ndisconnected\n" + end, client + end
}

// TestUcmatose runs every pairing over both families with every flag.
func TestUcmatose(t *testing.T) {
	ours, theirs := tool(t, "ucmatose")
	for i, path := range paths(t) {
		for _, flags := range []string{"", "-c 10", "-C 100 -S 5000 -c 3", "-S 1 -C 1", "-C 0", "-S 0", "-m -c 3", "-t 8 -a 16 -f ip -P tcp -c 2"} {
			if i > 0 && flags != "" {
				continue
			}
			for _, pair := range pairs(ours, theirs) {
				t.Run(strings.ReplaceAll(pair[0].Name+"-"+pair[1].Name+" "+path.Server+" "+flags, " ", "_"), func(t *testing.T) {
					port := newPort()
					args := append([]string{"-p", port}, strings.Fields(flags)...)
					server, client := ucmatoseLines(flags)
					meeting{
						server: pair[0], serverArgs: append([]string{"-b", path.Server}, args...),
						client: pair[1], clientArgs: append([]string{"-s", path.Server, "-b", path.Client}, args...),
						check: both(server, client),
					}.run(t)
				})
			}
		}
	}
}

func TestUcmatoseWords(t *testing.T) {
	path := paths(t)[0]
	sameWords(t, "ucmatose", "-x", "-s", "-c", "-s 203.0.113.1", "-b 203.0.113.1", "-p nosuchport", "-s nosuch.invalid",
		"-s "+path.Server+" -b "+path.Client+" -p "+newPort(), "-P nosuch -f nosuch -b 203.0.113.1")
}

// TestUcmatoseGID runs -f gid on an Ethernet port as far as possible. IPv4 addresses must be
// rejected. The C program creates GIDs from the memory after them, and its server listens.
func TestUcmatoseGID(t *testing.T) {
	path := paths(t)[0]
	gid := "::ffff:" + path.Server
	sameWords(t, "ucmatose", "-f gid -b "+gid, "-f gid -s "+gid, "-f gid -s nosuch.invalid")
	ours, _ := tool(t, "ucmatose")
	for _, args := range []string{"-f gid -s " + path.Server, "-f gid -s " + gid + " -b " + path.Client, "-f gid -b " + path.Server} {
		got := output(t, ours, args)
		if got.Status != 247 || !strings.Contains(got.Stdout, "error: Address family for hostname not supported\n") {
			t.Errorf("%s: %v", args, got)
		}
	}
}

// TestLoopbackHint checks the hint for a loopback address on either side.
func TestLoopbackHint(t *testing.T) {
	const why = "no RDMA device has a loopback address: use the address of an interface that has a device"
	path := paths(t)[0]
	for _, program := range []string{"ucmatose", "cmtime", "rping"} {
		ours, theirs := tool(t, program)
		for _, names := range []string{"-s 127.0.0.1", "-s " + path.Server + " -b 127.0.0.1"} {
			if program == "rping" {
				names = "-c " + strings.NewReplacer("-s", "-a", "-b", "-I").Replace(names)
			}
			t.Run(program+" "+names, func(t *testing.T) {
				got := output(t, ours, names)
				want := got.Status
				if program != "cmtime" { // the C program reports success
					want = output(t, theirs, names).Status
				}
				if want == 0 || got.Status != want || !strings.Contains(got.Stderr, why) {
					t.Errorf("%v, want status %d", got, want)
				}
			})
		}
	}
}

// TestUcmatoseCounts checks that the server fails if it sends more messages than the client has
// receives. C's server returns 0.
func TestUcmatoseCounts(t *testing.T) {
	ours, theirs := tool(t, "ucmatose")
	path := paths(t)[0]
	for _, client := range []pairing.Program{ours, theirs} {
		t.Run(client.Name, func(t *testing.T) {
			port := newPort()
			meeting{
				server: ours, serverArgs: []string{"-b", path.Server, "-p", port, "-C", "20"},
				client: client, clientArgs: []string{"-s", path.Server, "-b", path.Client, "-p", port, "-C", "10"},
				check: func(served, _ pairing.Output) error {
					if served.Status != 255 || !strings.Contains(served.Stderr, " of 20: ") {
						return errors.New("the server has not failed")
					}
					return nil
				},
			}.run(t)
		})
	}
}

// TestUcmatoseTooMany checks that the server rejects excess connections, and that the client
// reports this.
func TestUcmatoseTooMany(t *testing.T) {
	ours, theirs := tool(t, "ucmatose")
	path := paths(t)[0]
	for _, client := range []pairing.Program{ours, theirs} {
		t.Run(client.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			port := newPort()
			server, err := pairing.Start(ctx, ours, "-b", path.Server, "-p", port, "-c", "2")
			if err != nil {
				t.Fatalf("pairing.Start: %v", err)
			}
			conn := dialWhenUp(t, ctx, server, path, port)
			defer conn.Close()
			proc, err := pairing.Start(ctx, client, "-s", path.Server, "-b", path.Client, "-p", port, "-c", "2")
			if err != nil {
				t.Fatalf("pairing.Start: %v", err)
			}
			for !strings.Contains(server.Output().Stdout, "cmatose: failing connection request\n") {
				if ctx.Err() != nil {
					t.Fatalf("no connection was rejected: %v", server.Output())
				}
				time.Sleep(10 * time.Millisecond)
			}
			conn.Close() // the server's sends to it fail
			out, err := server.Wait(toolLimit)
			if err != nil || out.Status != 255 {
				t.Errorf("server: %v, %v, want status 255", err, out)
			}
			// The C program waits for the rest of its connections, until the server ends.
			out, err = proc.Wait(toolLimit)
			if err != nil || out.Status != cm.RejectConsumer || !strings.Contains(out.Stdout, "cmatose: event: RDMA_CM_EVENT_REJECTED, error: 28\n") {
				t.Errorf("client: %v, %v, want a rejection", err, out)
			}
		})
	}
}

// TestUcmatoseHostile checks that peers that violate the protocol fail the run without blocking
// it.
func TestUcmatoseHostile(t *testing.T) {
	ours, _ := tool(t, "ucmatose")
	path := paths(t)[0]
	t.Run("client leaves", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		port := newPort()
		server, err := pairing.Start(ctx, ours, "-b", path.Server, "-p", port)
		if err != nil {
			t.Fatalf("pairing.Start: %v", err)
		}
		dialWhenUp(t, ctx, server, path, port).Close()
		out, err := server.Wait(toolLimit)
		if err != nil || out.Status != 255 || !strings.Contains(out.Stdout, "return status -1\n") {
			t.Errorf("server: %v, %v, want status 255", err, out)
		}
	})
	for name, size := range map[string]int{"server sends too much": 101, "server leaves": 0} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ln, err := cm.Listen(ctx, "tcp", netip.AddrPortFrom(netip.MustParseAddr(path.Server), 0).String())
			if err != nil {
				t.Fatalf("cm.Listen: %v", err)
			}
			defer ln.Close()
			client, err := pairing.Start(ctx, ours, "-s", path.Server, "-b", path.Client, "-p", portOf(ln))
			if err != nil {
				t.Fatalf("pairing.Start: %v", err)
			}
			sendAndLeave(t, ctx, ln, size)
			out, err := client.Wait(toolLimit)
			if err != nil || out.Status != 255 || !strings.Contains(out.Stderr, "receive 1 of 10") {
				t.Errorf("client: %v, %v, want status 255", err, out)
			}
		})
	}
}

// dialWhenUp connects to a server that may not listen yet.
func dialWhenUp(t *testing.T, ctx context.Context, server *pairing.Process, path pairing.Path, port string) *cm.Conn {
	t.Helper()
	d := from(path)
	return dialUntilUp(t, ctx, server, &d, path, port)
}

// dialUntilUp is like dialWhenUp with a given dialer.
func dialUntilUp(t *testing.T, ctx context.Context, server *pairing.Process, d *cm.Dialer, path pairing.Path, port string) *cm.Conn {
	t.Helper()
	for {
		conn, err := d.Dial(ctx, "tcp", path.Server+":"+port)
		if err == nil {
			return conn
		}
		if !server.Alive() {
			t.Fatalf("d.Dial: %v, because the server has ended: %v", err, server.Output())
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("d.Dial: %v, output of the server: %v", err, server.Output())
		}
	}
}

func portOf(ln *cm.Listener) string {
	_, port, _ := strings.Cut(ln.Addr().String(), ":")
	return port
}

// sendAndLeave accepts a client, sends one message unless size is 0, and closes the connection
// when the client has disconnected or failed.
func sendAndLeave(t *testing.T, ctx context.Context, ln *cm.Listener, size int) {
	t.Helper()
	req, err := ln.Accept(ctx)
	if err != nil {
		t.Fatalf("ln.Accept: %v", err)
	}
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		t.Fatalf("req.PD: %v", err)
	}
	mr, err := pd.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("pd.Alloc: %v", err)
	}
	defer mr.Close()
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		t.Fatalf("req.Accept: %v", err)
	}
	defer conn.Close()
	if size > 0 {
		// The client ends the connection, because its receive is too short.
		if err := conn.Send(ctx, mr.Slice(0, size)); err == nil {
			t.Errorf("Send of %d bytes = nil, want an error", size)
		}
	}
}
