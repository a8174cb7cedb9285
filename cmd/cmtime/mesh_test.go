// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

func TestIsMesh(t *testing.T) {
	for args, want := range map[string]bool{
		"": false, "-s a -b b -c 3": false, "-p 1 -r 0 -t 1": false, "-x": false,
		"-C a -b b": true, "-L": true, "-b a -P 3": true, "-s a -n 1": true,
	} {
		if got := isMesh(strings.Fields(args)); got != want {
			t.Errorf("isMesh(%q) = %v, want %v", args, got, want)
		}
	}
}

func TestParseMesh(t *testing.T) {
	def := meshOptions{source: "b", controller: "c", port: "7471", conns: 100, threads: 1, peers: 2, qpn: 1000, retries: 2, timeout: 2 * time.Second}
	u := &tool.UI{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}
	for args, change := range map[string]func(*meshOptions){
		"-b b -C c":                             func(*meshOptions) {},
		"-b b -C c -L -n 4 -P 3 -c 7 -p 1 -q 5": func(o *meshOptions) { o.listen, o.threads, o.peers, o.conns, o.port, o.qpn = true, 4, 3, 7, "1", 5 },
		"-b b -C c -m 100 -r 0 -t 1": func(o *meshOptions) {
			o.mimic, o.delay, o.retries, o.timeout = true, 100*time.Microsecond, 0, time.Millisecond
		},
		"-b b -C c -S x": func(o *meshOptions) { o.sockets = true },
	} {
		want := def
		change(&want)
		if got, err := parseMesh(strings.Fields(args), u); err != nil || *got != want {
			t.Errorf("parseMesh(%s) = %+v, %v, want %+v", args, got, err, want)
		}
	}
	for args, want := range map[string]error{
		"-b b": errMeshNeeds, "-C c": errMeshNeeds, "-b b -b c -C c": errTwoSources, "-b b -C c -S x -P 3": errMeshPair,
	} {
		if _, err := parseMesh(strings.Fields(args), u); err != want {
			t.Errorf("parseMesh(%s) = %v, want %v", args, err, want)
		}
	}
	for _, args := range []string{"-x", "-S", "-P 1 -b b -C c", "-n 0", "-B nosuch0", "-b b -C c x", "-q 16777216"} {
		if _, err := parseMesh(strings.Fields(args), u); err == nil {
			t.Errorf("parseMesh(%s) = nil error", args)
		}
	}
}

// TestPeer checks the encoding of peers. It equals struct peer_info of the C program in the
// memory of a little-endian machine.
func TestPeer(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("00", n) }
	for _, tc := range []struct {
		peer peer
		want string
	}{
		{peer{}, zeros(136)},
		{peer{cm.AddrFrom(netip.MustParseAddrPort("10.8.0.1:7471")), true}, "0200" + "1d2f" + "0a080001" + zeros(120) + "01000000" + zeros(4)},
		{peer{cm.AddrFrom(netip.MustParseAddrPort("[fd00:8::1]:1")), true}, "0a00" + "0001" + zeros(4) + "fd000008" + zeros(11) + "01" + zeros(104) + "01000000" + zeros(4)},
	} {
		b := tc.peer.append(nil)
		if bytes.Equal([]byte{1, 0}, []byte{b[0], b[1]}) || hex.EncodeToString(b) != tc.want {
			t.Errorf("append of %+v = %x, want %s", tc.peer, b, tc.want)
		}
		got, err := decodePeers(append(b, b...))
		if err != nil || len(got) != 2 || got[0] != tc.peer || got[1] != tc.peer {
			t.Errorf("decodePeers of %+v = %+v, %v", tc.peer, got, err)
		}
	}
}

func FuzzPeers(f *testing.F) {
	f.Add(peer{}.append(nil))
	f.Add(peer{cm.AddrFrom(netip.MustParseAddrPort("[fd00:8::1]:1")), true}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		peers, err := decodePeers(b)
		if err != nil {
			return
		}
		if len(peers) != len(b)/peerSize {
			t.Fatalf("decodePeers returned %d peers for %d bytes", len(peers), len(b))
		}
		for _, p := range peers {
			if p.listen != p.addr.IsValid() {
				t.Fatalf("decodePeers returned %+v, want an address exactly if it listens", p)
			}
			if again, err := decodePeers(p.append(nil)); err != nil || again[0] != p {
				t.Fatalf("decodePeers of %+v = %+v, %v", p, again, err)
			}
		}
	})
}

func TestMeshTable(t *testing.T) {
	var out bytes.Buffer
	conns := []*meshConn{{}, {}}
	conns[0].times[meshConnect], conns[1].times[meshConnect] = span{1, 1001}, span{501, 3001}
	conns[0].times[meshFullConnect] = span{1, 2001}
	totals := [numMeshSteps]span{meshConnect: {1, 3101}}
	printMeshTable(&tool.UI{Out: &out}, &totals, conns, 3, true)
	for _, want := range []string{
		"qp_conn                 2\nthreads                 3\nstep             avg/conn  total(us)    us/conn    sum(us)    max(us)    min(us)\n",
		"full connect            0          0          0          0       2000       2000\n",
		"cm connect           1550       3100       1750       3500       2500       1000\n",
		"destroy qp              0          0          0          0          0          0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printMeshTable printed\n%s\nwant %q", &out, want)
		}
	}
}
