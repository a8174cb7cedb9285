// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

// Like rdma-core's, these programs ignore private data, so that a peer may send any.

// private returns parameters with n bytes of garbage.
func private(n int) *cm.ConnParam {
	return &cm.ConnParam{PrivateData: vmtest.Garbage(n)}
}

func from(path pairing.Path) cm.Dialer {
	return cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr(path.Client), 0))}
}

// TestGarbageForServers checks that servers accept clients whose requests contain garbage, and
// serve the next clients.
func TestGarbageForServers(t *testing.T) {
	path := paths(t)[0]
	lengths := []int{0, 1, 16, vmtest.PrivateData(56) - 1, vmtest.PrivateData(56)}
	for _, tc := range []struct {
		name, args string
		stays      bool
	}{
		{"rping", "-s -P -a " + path.Server, true},
		{"cmtime", "-b " + path.Server, true},
		{"ucmatose", "-C 0 -c 5 -b " + path.Server, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ours, theirs := tool(t, tc.name)
			port := newPort()
			server, err := start(ctx, t, ours, append(strings.Fields(tc.args), "-p", port)...)
			if err != nil {
				t.Fatalf("start: %v", err)
			}
			for _, n := range lengths {
				d := from(path)
				d.Param = private(n)
				conn := dialUntilUp(t, ctx, server, &d, path, port)
				defer conn.Close()
				if tc.stays {
					conn.Close()
				}
			}
			switch tc.name {
			case "rping":
				out, err := pairing.RunWhile(ctx, theirs, toolLimit, func(pairing.Output) bool { return false },
					"-c", "-v", "-a", path.Server, "-I", path.Client, "-p", port, "-C", "5")
				if err != nil || out.Status != 0 || out.Stdout != pairing.Lines("ping data: ", 64, 5) {
					t.Errorf("next client: %v, %v\nserver: %v", err, out, server.Output())
				}
			case "cmtime":
				out, err := cmtimeClient(ctx, server, theirs, path, port, 5)
				if err == nil {
					err = cmtimeTable(out, 5)
				}
				if err != nil {
					t.Errorf("next client: %v, %v\nserver: %v", err, out, server.Output())
				}
			default:
				if out, err := server.Wait(toolLimit); err != nil || out.Status != 0 {
					t.Errorf("server: %v, %v, want status 0", err, out)
				}
				return
			}
			if !server.Alive() {
				t.Errorf("the server has ended: %v", server.Output())
			}
		})
	}
}

// TestUdaddyGarbage is TestGarbageForServers for udaddy's server.
func TestUdaddyGarbage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ours, _ := tool(t, "udaddy")
	path := paths(t)[0]
	server, err := start(ctx, t, ours, "-C", "0", "-c", "3", "-b", path.Server)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	d := from(path)
	for done := 0; done < 3 && ctx.Err() == nil; {
		r, err := d.Resolve(ctx, "udp", path.Server+":7174") // udaddy has no flag for the port
		if err != nil {
			t.Fatalf("d.Resolve: %v", err)
		}
		if _, err := r.Lookup(ctx, &cm.ConnParam{PrivateData: vmtest.Garbage(90 * done)}); err == nil {
			done++
		} else {
			time.Sleep(100 * time.Millisecond) // the server does not listen yet
		}
		r.Close()
	}
	if out, err := server.Wait(toolLimit); err != nil || out.Status != 0 {
		t.Errorf("server: %v, %v, want status 0", err, out)
	}
}

// TestGarbageForClients checks that garbage in a rejection or an acceptance has no effect.
func TestGarbageForClients(t *testing.T) {
	path := paths(t)[0]
	for _, tc := range []struct{ name, args string }{
		{"rping", "-c -C 1 -a " + path.Server + " -I " + path.Client},
		{"ucmatose", "-C 0 -s " + path.Server + " -b " + path.Client},
		{"rdma_client", "-s " + path.Server},
	} {
		for what, room := range map[string]int{"refused": 148, "accepted": 196} {
			t.Run(tc.name+" "+what, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ours, _ := tool(t, tc.name)
				ln, err := cm.Listen(ctx, "tcp", path.Server+":0")
				if err != nil {
					t.Fatalf("cm.Listen: %v", err)
				}
				defer ln.Close()
				client, err := pairing.Start(ctx, ours, append(strings.Fields(tc.args), "-p", portOf(ln))...)
				if err != nil {
					t.Fatalf("pairing.Start: %v", err)
				}
				req, err := ln.Accept(ctx)
				if err != nil {
					t.Fatalf("ln.Accept: %v", err)
				}
				defer req.Close()
				status := 255 // there is no data
				if what == "refused" {
					err = req.Reject(vmtest.Garbage(vmtest.PrivateData(room)))
				} else {
					var conn *cm.Conn
					if conn, err = req.Accept(ctx, nil, private(vmtest.PrivateData(room))); err == nil {
						conn.Close()
					}
					if tc.name == "ucmatose" {
						status = 0
					}
				}
				if err != nil {
					t.Errorf("req.Reject or req.Accept: %v", err)
				}
				out, err := client.Wait(toolLimit)
				if said := out.Stdout + out.Stderr; err != nil || (out.Status == 0) != (status == 0) || said == "" || strings.Contains(said, "panic") {
					t.Errorf("client: %v, %v, want success %t and output", err, out, status == 0)
				}
			})
		}
	}
}
