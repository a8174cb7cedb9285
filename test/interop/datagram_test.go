// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"purerdma/test/pairing"
)

// TestUdaddy runs udaddy in every pairing over both families. Its port is fixed, so the runs
// are sequential.
func TestUdaddy(t *testing.T) {
	ours, theirs := tool(t, "udaddy")
	for i, path := range paths(t) {
		for _, flags := range []string{"", "-c 5 -C 3 -S 1024", "-C 100 -S 1", "-C 0", "-t 8 -f ip -P udp"} {
			if i > 0 && flags != "" {
				continue
			}
			for _, pair := range pairs(ours, theirs) {
				t.Run(strings.ReplaceAll(pair[0].Name+"-"+pair[1].Name+" "+path.Server+" "+flags, " ", "_"), func(t *testing.T) {
					server, client := "udaddy: starting server\n", "udaddy: starting client\nudaddy: connecting\n"
					if flags != "-C 0" {
						server += "receiving data transfers\nsending replies\ndata transfers complete\n"
						client += "initiating data transfers\nreceiving data transfers\ndata transfers complete\n"
					}
					const end = "test complete\nreturn status 0\n"
					meeting{
						server: pair[0], serverArgs: append([]string{"-b", path.Server}, strings.Fields(flags)...),
						client: pair[1], clientArgs: append([]string{"-s", path.Server, "-b", path.Client}, strings.Fields(flags)...),
						refused: "udaddy: event: RDMA_CM_EVENT_UNREACHABLE, error: 1\n", // IB_SIDR_UNSUPPORTED
						check:   both(server+end, client+end),
					}.run(t)
				})
			}
		}
	}
}

func TestUdaddyWords(t *testing.T) {
	path := paths(t)[0]
	sameWords(t, "udaddy", "-x", "-s", "-s 203.0.113.1", "-s nosuch.invalid", "-b 203.0.113.1",
		"-s "+path.Server+" -b "+path.Client+" -S 100000", "-s "+path.Server+" -b "+path.Client)
}

// TestMckey runs mckey in every pairing, with a receiver that has joined and a sender. Both
// sleep most of the time, so the runs of one sender overlap, with a group each. The runs of the
// two senders do not overlap, because the Go program sends ten datagrams and the C program
// thousands.
func TestMckey(t *testing.T) {
	ours, theirs := tool(t, "mckey")
	path := paths(t)[0]
	n := 0
	for _, sender := range []pairing.Program{ours, theirs} {
		t.Run("from_"+sender.Name, func(t *testing.T) {
			for _, receiver := range []pairing.Program{ours, theirs} {
				for _, flags := range []string{"", "-c 2 -C 3 -S 1024"} {
					n++
					group := fmt.Sprintf("239.1.2.%d", n)
					t.Run(strings.ReplaceAll("to "+receiver.Name+" "+flags, " ", "_"), func(t *testing.T) {
						t.Parallel()
						err := mckey(t, receiver, sender, path, group, strings.Fields(flags))
						if err != nil && (receiver == theirs || sender == theirs) {
							t.Logf("first try: %v", err)
							err = mckey(t, receiver, sender, path, group, strings.Fields(flags))
						}
						if err != nil {
							t.Errorf("mckey: %v", err)
						}
					})
				}
			}
		})
	}
}

// TestMckeyIPv6 checks that neither program joins IPv6 groups over RoCE, which the kernel does
// not support.
func TestMckeyIPv6(t *testing.T) {
	ours, theirs := tool(t, "mckey")
	args := "-m ff0e::1:9 -b " + paths(t)[1].Server
	want, got := output(t, theirs, args), output(t, ours, args)
	if got.Stdout != want.Stdout || got.Status != want.Status || got.Status == 0 ||
		!strings.HasPrefix(got.Stderr, "mckey: failure joining: Unknown error 524\n") {
		t.Errorf("Go: %v\nC: %v", got, want)
	}
}

// mckey runs one receiver and, after it has joined and waited for three seconds, one sender.
func mckey(t *testing.T, receiver, sender pairing.Program, path pairing.Path, group string, flags []string) error {
	args := append([]string{"-m", group}, flags...)
	r, err := pairing.Start(t.Context(), receiver, append([]string{"-b", path.Server}, args...)...)
	if err != nil {
		return err
	}
	// The C program prints nothing before its end, because its output is a pipe. It has taken
	// almost three seconds until it received.
	time.Sleep(3 * time.Second)
	args = append([]string{"-s", "-b", path.Client}, args...)
	if sender.Name == "C" {
		// The C program ends without waiting for its posted sends. On 7.3, where rxe sends from
		// a worker, only one of ten datagrams was sent. Some of many datagrams are sent.
		args = append(args, "-C", "8000")
	}
	s, err := pairing.Start(t.Context(), sender, args...)
	if err != nil {
		return err
	}
	sent, serr := s.Wait(toolLimit)
	got, rerr := r.Wait(startWait)
	joined := "mckey: joined dgid: ::ffff:" + group + " mlid 0x0 sl 0\n"
	if len(flags) > 0 {
		joined += joined // -c 2
	}
	const end = "data transfers complete\ntest complete\nreturn status 0\n"
	return errors.Join(serr, rerr,
		printed("sender", sent, "mckey: starting client\nmckey: joining\n"+joined+"initiating data transfers\n"+end),
		printed("receiver", got, "mckey: starting server\nmckey: joining\n"+joined+"receiving data transfers\n"+end))
}

func TestMckeyWords(t *testing.T) {
	path := paths(t)[0]
	sameWords(t, "mckey", "-x", "-m", "-M ff0e::1", "-m nosuch.invalid", "-m 239.1.1.1 -b 203.0.113.1",
		"-m 239.1.1.1 -b "+path.Client+" -S 100000", "-m 239.1.1.1 -s -C 0 -o -b "+path.Client)
	// The error names a group that was not joined.
	ours, _ := tool(t, "mckey")
	out := output(t, ours, "-m 239.1.1.1 -b "+path.Client+" -S 100000")
	if !strings.Contains(out.Stderr, "mckey: leave the group 239.1.1.1, which was not joined: cannot assign requested address\n") {
		t.Errorf("mckey of a group that was not joined: %v, want its name", out)
	}
}
