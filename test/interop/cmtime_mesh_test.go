// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"purerdma/test/pairing"
)

var meshRow = regexp.MustCompile(`(?m)^(full connect|create id|bind addr|resolve addr|resolve route|create qp|init qp attr|init qp|rtr qp attr|rtr qp|rts qp attr|rts qp|cm connect|establish|disconnect|destroy id|destroy qp) +\d+ +\d+ +\d+ +\d+ +\d+ +\d+$`)

// TestCmtimeMesh runs two and three Go programs of the newer version of cmtime, which this
// machine's rdma-core does not have. All pairings with rdma-core 64's cmtime, built manually,
// have succeeded.
func TestCmtimeMesh(t *testing.T) {
	ours, _ := tool(t, "cmtime")
	path := paths(t)[0]
	for _, tc := range []struct {
		flags   string
		clients int
		tables  int // of each
		want    string
	}{
		{"-c 50 -n 2", 1, 2, "Connect (50) QPs test\n"},
		{"-c 20 -m 100", 1, 2, "Connect (20) simulated QPs test (delay 100 us)\n"},
		{"-c 20 -P 3", 2, 1, "Connect (20) QPs test\n"},
		{"-c 5 -S x", 1, 1, "Client baseline socket results:\n"},
	} {
		t.Run(tc.flags, func(t *testing.T) {
			args := append([]string{"-C", path.Server, "-p", newPort()}, strings.Fields(tc.flags)...)
			server, err := pairing.Start(t.Context(), ours, append([]string{"-L", "-b", path.Server}, args...)...)
			if err != nil {
				t.Fatalf("pairing.Start: %v", err)
			}
			// The first program is the root and prints this at once.
			for start := time.Now(); !strings.Contains(server.Output().Stdout, "Running as OOB root\n"); time.Sleep(10 * time.Millisecond) {
				if time.Since(start) > startWait {
					t.Fatalf("no root: %v", server.Output())
				}
			}
			var procs []*pairing.Process
			for range tc.clients {
				p, err := pairing.Start(t.Context(), ours, append([]string{"-b", path.Client}, args...)...)
				if err != nil {
					t.Fatalf("pairing.Start: %v", err)
				}
				procs = append(procs, p)
			}
			for i, p := range append(procs, server) {
				out, err := p.Wait(toolLimit)
				name := fmt.Sprintf("client %d", i)
				if p == server {
					name = "server"
				} else if !strings.Contains(out.Stdout, tc.want) {
					t.Errorf("output of %s lacks %q", name, tc.want)
				}
				if rows := len(meshRow.FindAllString(out.Stdout, -1)); err != nil || out.Status != 0 || out.Stderr != "" || rows != 17*tc.tables {
					t.Errorf("%s: %d rows, %v %v", name, rows, err, out)
				}
			}
		})
	}
}
