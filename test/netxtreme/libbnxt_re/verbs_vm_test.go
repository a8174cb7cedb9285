// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libbnxt_re

import (
	"strings"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
	"purerdma/test/pairing/meeting"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

func TestDevinfo(t *testing.T) {
	part, requests := "5968", "8192"
	if vmtest.P7() {
		part, requests = "5984", "4351"
	}
	for _, h := range vmtest.Hosts(t, 2) {
		p, err := pairing.Start(t.Context(), meeting.Program(t, "ibv_devinfo"), "-v", "-d", h.Device)
		if err != nil {
			t.Fatalf("pairing.Start: %v", err)
		}
		out, err := p.Wait(meeting.ClientLimit)
		if err != nil || out.Status != 0 {
			t.Fatalf("ibv_devinfo: %v, %v", err, out)
		}
		for _, want := range []string{"vendor_id:\t\t\t0x14e4", "vendor_part_id:\t\t\t" + part, "PORT_ACTIVE (4)", "link_layer:\t\tEthernet",
			"max_qp_wr:\t\t\t" + requests, "::ffff:" + h.IPv4.String() + ", RoCE v2"} {
			if !strings.Contains(out.Stdout, want) {
				t.Errorf("output for %s lacks %q:\n%s", h.Device, want, out.Stdout)
			}
		}
	}
}

// TestPingpong runs QPs of all kinds, polling and with events, with verified data.
func TestPingpong(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, tc := range []struct{ program, flags string }{
		{"ibv_rc_pingpong", "-n 200"},
		{"ibv_rc_pingpong", "-c -e -n 100 -s 100000"},
		{"ibv_ud_pingpong", "-c -n 100 -s 1000"},
		{"ibv_ud_pingpong", "-e -n 100"},
		{"ibv_srq_pingpong", "-n 200 -q 8"},
		{"ibv_srq_pingpong", "-e -n 200"},
	} {
		t.Run(tc.program+" "+tc.flags, func(t *testing.T) {
			p := meeting.Port()
			args := func(i int) []string {
				return append(strings.Fields(tc.flags), "-d", hosts[i].Device, "-g", meeting.GIDIndex(t, hosts[i], hosts[i].IPv4), "-p", p)
			}
			meeting.Meeting{TCP: p, Program: tc.program, Server: args(0), Client: append(args(1), "127.0.0.1"), Want: []string{" usec/iter\n"}}.Run(t)
		})
	}
}

// TestPerftest runs the operations of RC and UD.
func TestPerftest(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, flags := range []string{
		"ib_send_bw -n 100", "ib_send_bw -n 100 -b", "ib_send_bw -n 100 -c UD", "ib_send_lat -n 100 -I 64 -s 64", "ib_write_bw -n 100 -q 4 -s 1000",
		"ib_write_bw -n 20 -s 1048576", "ib_read_bw -n 100", "ib_read_bw -n 20 -s 4194304 -o 16",
		"ib_atomic_bw -n 100 -A FETCH_AND_ADD", "ib_atomic_bw -n 100 -A CMP_AND_SWAP", "ib_atomic_lat -n 100",
	} {
		t.Run(flags, func(t *testing.T) {
			f, p := strings.Fields(flags), meeting.Port()
			args := func(i int) []string {
				return append(f[1:len(f):len(f)], "-F", "-d", hosts[i].Device, "-p", p, "-x", meeting.GIDIndex(t, hosts[i], hosts[i].IPv4))
			}
			meeting.Meeting{TCP: p, Program: f[0], Server: args(0), Client: append(args(1), "127.0.0.1"), ClientWant: "#bytes"}.Run(t)
		})
	}
}
