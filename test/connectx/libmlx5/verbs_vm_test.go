// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libmlx5

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
	"purerdma/test/pairing/meeting"
)

// TestPingpong runs QPs of all kinds, polling and with events, with verified data.
func TestPingpong(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, tc := range []struct{ program, flags string }{
		{"ibv_rc_pingpong", "-n 200"},
		{"ibv_rc_pingpong", "-c -e -n 100 -s 100000"},
		{"ibv_rc_pingpong", "-c -N -n 100 -s 300"},
		{"ibv_uc_pingpong", "-c -n 100"},
		{"ibv_uc_pingpong", "-e -n 100 -s 20000"},
		{"ibv_ud_pingpong", "-c -n 100 -s 1000"},
		{"ibv_ud_pingpong", "-e -n 100"},
		{"ibv_srq_pingpong", "-n 200 -q 8"},
		{"ibv_srq_pingpong", "-e -n 200"},
		{"ibv_xsrq_pingpong", "-n 100"},
		{"ibv_xsrq_pingpong", "-e -n 100"},
	} {
		t.Run(tc.program+" "+tc.flags, func(t *testing.T) {
			p := meeting.Port()
			args := func(i int) []string {
				return append(strings.Fields(tc.flags), "-d", hosts[i].Device, "-g", meeting.GIDIndex(t, hosts[i], hosts[i].IPv4), "-p", p)
			}
			m := meeting.Meeting{TCP: p, Program: tc.program, Server: args(0), Client: append(args(1), "127.0.0.1"), Want: []string{" usec/iter\n"}}
			if tc.program == "ibv_xsrq_pingpong" {
				m.Want = nil // it prints no such lines
			}
			m.Run(t)
		})
	}
}

// TestPerftest runs the operations in both forms, with the old and the new interface for
// posting, on all kinds of QPs.
func TestPerftest(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	var cases []string
	for _, api := range []string{"", " --use_old_post_send"} {
		for _, op := range []string{"ib_send", "ib_write", "ib_read"} {
			cases = append(cases, op+"_bw -n 100"+api, op+"_lat -n 100"+api)
		}
		cases = append(cases, "ib_atomic_bw -n 100 -A FETCH_AND_ADD"+api, "ib_atomic_bw -n 100 -A CMP_AND_SWAP"+api, "ib_atomic_lat -n 100"+api,
			"ib_send_bw -n 100 -c UC"+api, "ib_send_bw -n 100 -c UD -s 1024"+api, "ib_send_lat -n 100 -c UD -s 100"+api, "ib_write_bw -n 100 -c UC"+api,
			"ib_send_bw -n 100 -c XRC"+api, "ib_write_lat -n 100 -s 8 -I 64"+api, "ib_send_lat -n 100 -s 200 -I 220"+api)
	}
	cases = append(cases, "ib_send_bw -n 100 -e", "ib_write_bw -n 100 -q 4 -s 1000", "ib_send_bw -n 100 -r 64 --use-srq", "ib_send_bw -n 100 -b",
		"ib_write_bw -n 20 -s 1048576", "ib_read_bw -n 20 -s 4194304 -o 16", "ib_send_bw -n 100 -R", "ib_write_lat -n 100 -R", "ib_atomic_bw -n 100 -R")
	for _, c := range cases {
		t.Run(c, func(t *testing.T) {
			f, p := strings.Fields(c), meeting.Port()
			args := func(i int) []string {
				a := append(f[1:len(f):len(f)], "-d", hosts[i].Device, "-p", p)
				if strings.Contains(c, " -R") {
					return a
				}
				return append(a, "-x", meeting.GIDIndex(t, hosts[i], hosts[i].IPv4))
			}
			peer, tcp := "127.0.0.1", p
			if strings.Contains(c, " -R") {
				peer, tcp = hosts[0].IPv4.String(), ""
			}
			meeting.Meeting{TCP: tcp, Program: f[0], Server: args(0), Client: append(args(1), peer), ClientWant: "#bytes"}.Run(t)
		})
	}
}

// TestSpeed checks that the model is fast enough for tests.
func TestSpeed(t *testing.T) {
	const least = 300 // MB/s, of messages of 64 KiB
	hosts := vmtest.Hosts(t, 2)
	p := meeting.Port()
	args := func(i int) []string {
		return []string{"-n", "3000", "-s", "65536", "-d", hosts[i].Device, "-p", p, "-x", meeting.GIDIndex(t, hosts[i], hosts[i].IPv4)}
	}
	server, err := pairing.Start(t.Context(), meeting.Program(t, "ib_write_bw"), args(0)...)
	if err != nil {
		t.Fatalf("pairing.Start: %v", err)
	}
	out, err := pairing.RunWhile(t.Context(), meeting.Program(t, "ib_write_bw"), meeting.ClientLimit, meeting.NobodyListens, append(args(1), "127.0.0.1")...)
	server.Wait(meeting.ServerLimit)
	m := regexp.MustCompile(`(?m)^ *65536 +3000 +[\d.]+ +([\d.]+)`).FindStringSubmatch(out.Stdout)
	if err != nil || m == nil {
		t.Fatalf("ib_write_bw: %v, %v", err, out)
	}
	average, err := strconv.ParseFloat(m[1], 64)
	t.Logf("%.0f MiB/s", average)
	if err != nil || average < least/1.048576 {
		t.Errorf("bandwidth = %s MiB/s, want at least %d MB/s", m[1], least)
	}
}
