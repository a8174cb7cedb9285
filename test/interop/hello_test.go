// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/test/pairing"
	"purerdma/verbs"
)

// TestHello runs rdma_client and rdma_server in every pairing over both families.
func TestHello(t *testing.T) {
	server, cServer := tool(t, "rdma_server")
	client, cClient := tool(t, "rdma_client")
	for _, path := range paths(t) {
		for _, s := range []pairing.Program{server, cServer} {
			for _, c := range []pairing.Program{client, cClient} {
				t.Run(s.Name+"-"+c.Name+" "+path.Server, func(t *testing.T) {
					args := []string{"-s", path.Server, "-p", newPort()}
					meeting{server: s, serverArgs: args, client: c, clientArgs: args,
						check: both("rdma_server: start\nrdma_server: end 0\n", "rdma_client: start\nrdma_client: end 0\n")}.run(t)
				})
			}
		}
	}
}

func TestHelloWords(t *testing.T) {
	path := paths(t)[0]
	sameWords(t, "rdma_client", "-x", "-s", "", "-s 203.0.113.1", "-s nosuch.invalid", "-p nosuchport", "-s "+path.Server+" -p "+newPort())
	sameWords(t, "rdma_server", "-x", "-p", "-s 203.0.113.1", "-s nosuch.invalid")
}

// TestHelloHostile checks that messages of another size, and peers that leave, end both
// programs.
func TestHelloHostile(t *testing.T) {
	ours, _ := tool(t, "rdma_server")
	path := paths(t)[0]
	for _, tc := range []struct {
		name string
		size int
		want string
	}{
		{"short", 15, "the peer's message has 15 bytes, want 16"},
		{"empty", 0, "the peer's message has 0 bytes, want 16"},
		{"long", 17, "rdma_get_recv_comp: "},
		{"none", -1, "rdma_get_recv_comp: "},
	} {
		t.Run("client "+tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			port := newPort()
			server, err := pairing.Start(ctx, ours, "-s", path.Server, "-p", port)
			if err != nil {
				t.Fatalf("pairing.Start: %v", err)
			}
			conn := dialWhenUp(t, ctx, server, path, port)
			defer conn.Close()
			if tc.size < 0 {
				conn.Close()
			} else {
				mr, err := conn.PD().Alloc(64, verbs.LocalWrite)
				if err != nil {
					t.Fatalf("conn.PD().Alloc: %v", err)
				}
				defer mr.Close()
				conn.Send(ctx, mr.Slice(0, tc.size))
			}
			out, err := server.Wait(toolLimit)
			if err != nil || out.Status != 255 || !strings.Contains(out.Stderr, tc.want) || !strings.HasSuffix(out.Stdout, "rdma_server: end -1\n") {
				t.Errorf("server: %v, %v\nwant %q", err, out, tc.want)
			}
		})
	}
	client, _ := tool(t, "rdma_client")
	t.Run("server that has no receive and leaves", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ln, err := cm.Listen(ctx, "tcp", netip.AddrPortFrom(netip.MustParseAddr(path.Server), 0).String())
		if err != nil {
			t.Fatalf("cm.Listen: %v", err)
		}
		defer ln.Close()
		proc, err := pairing.Start(ctx, client, "-s", path.Server, "-p", portOf(ln))
		if err != nil {
			t.Fatalf("pairing.Start: %v", err)
		}
		sendAndLeave(t, ctx, ln, 0)
		out, err := proc.Wait(toolLimit)
		if err != nil || out.Status != 255 || !strings.HasSuffix(out.Stdout, "rdma_client: end -1\n") {
			t.Errorf("client: %v, %v, want status 255", err, out)
		}
	})
}
