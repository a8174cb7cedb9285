// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"purerdma/test/pairing"
)

// pointer matches an object or memory in a line of rping -d.
var pointer = regexp.MustCompile(`\b(pd|qp|cb|cma|cma_id|addr|rkey|lkey|laddr) (0x)?[0-9a-f]+`)

// missing matches the lines of rping -d that the Go program does not print, according to its
// manual.
var missing = regexp.MustCompile(`^(created (cm_id|channel|cq) |destroy cm_id |cq_thread started\.)`)

// debugLines returns the distinct lines of rping -d, sorted. The number and the time of a
// queue's events vary in both programs.
func debugLines(out pairing.Output) []string {
	var lines []string
	for line := range strings.Lines(out.Stdout) {
		if !missing.MatchString(line) {
			lines = append(lines, pointer.ReplaceAllString(line, "$1 X"))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// TestDebugLines compares the output of rping -d with the C program's.
func TestDebugLines(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	for _, q := range []string{"-d", "-dq"} {
		t.Run(q, func(t *testing.T) {
			var server, client [2][]string
			for i, p := range [][2]pairing.Program{{ours, theirs}, {theirs, ours}} {
				port := pairing.NewPort()
				s, err := pairing.StartServer(t.Context(), p[0], path.Server, port, q, "-vV")
				if err != nil {
					t.Fatalf("pairing.StartServer: %v", err)
				}
				if i == 0 {
					// The C client does not end when iWARP refuses its connection.
					for start := time.Now(); !strings.Contains(s.Output().Stdout, "rdma_listen") && time.Since(start) < 10*time.Second; {
						time.Sleep(10 * time.Millisecond)
					}
				}
				out, err := pairing.RunClient(t.Context(), p[1], path.Server, port, 20*time.Second, "-I", path.Client, "-C", "3", q, "-vV")
				if err != nil || out.Status != 0 {
					t.Fatalf("client: %v %v", err, out)
				}
				served, err := s.Wait(30 * time.Second)
				if err != nil {
					t.Fatalf("s.Wait: %v", err)
				}
				server[i], client[1-i] = debugLines(served), debugLines(out)
			}
			for who, lines := range map[string][2][]string{"server": server, "client": client} {
				// The client's C program may end before the event.
				ended := func(line string) bool { return strings.Contains(line, "RDMA_CM_EVENT_DISCONNECTED") }
				got, want := slices.DeleteFunc(lines[0], ended), slices.DeleteFunc(lines[1], ended)
				if !slices.Equal(got, want) {
					t.Errorf("%s: Go\n%s\nC\n%s", who, strings.Join(got, ""), strings.Join(want, ""))
				}
			}
		})
	}
}
