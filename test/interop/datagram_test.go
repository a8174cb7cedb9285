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

// udaddy in every pairing, over both families. Its port cannot be chosen, so the
// runs come one after the other.
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

// mckey in every pairing: a receiver that has joined, and a sender. Most of the time
// both sleep, so those of one sender, which have a group each, overlap; not those of the
// other: ours sends ten datagrams, and the C program thousands.
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
							t.Error(err)
						}
					})
				}
			}
		})
	}
}

// The kernel joins no IPv6 groups over RoCE, for either program.
func TestMckeyIPv6(t *testing.T) {
	ours, theirs := tool(t, "mckey")
	args := "-m ff0e::1:9 -b " + paths(t)[1].Server
	want, got := output(t, theirs, args), output(t, ours, args)
	if got.Stdout != want.Stdout || got.Status != want.Status || got.Status == 0 ||
		!strings.HasPrefix(got.Stderr, "mckey: failure joining: Unknown error 524\n") {
		t.Errorf("ours: %v\nC: %v", got, want)
	}
}

// mckey runs one receiver and, when it has joined and had time for its three
// seconds, one sender.
func mckey(t *testing.T, receiver, sender pairing.Program, path pairing.Path, group string, flags []string) error {
	args := append([]string{"-m", group}, flags...)
	r, err := pairing.Start(t.Context(), receiver, append([]string{"-b", path.Server}, args...)...)
	if err != nil {
		return err
	}
	// The C program says nothing before its end, because its output is a pipe.
	// It has been seen to need most of three seconds until it receives.
	time.Sleep(3 * time.Second)
	args = append([]string{"-s", "-b", path.Client}, args...)
	if sender.Name == "C" {
		// It leaves without a wait for what it has posted: of ten datagrams one was
		// on the wire when its QP ended, where rxe sends by a worker (7.3). Of many
		// some get away.
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
	// What cannot be left because it was not joined is named.
	ours, _ := tool(t, "mckey")
	out := output(t, ours, "-m 239.1.1.1 -b "+path.Client+" -S 100000")
	if !strings.Contains(out.Stderr, "mckey: leave the group 239.1.1.1, which was not joined: cannot assign requested address\n") {
		t.Error(out)
	}
}
