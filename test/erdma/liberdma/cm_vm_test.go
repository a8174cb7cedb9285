// SPDX-License-Identifier: Apache-2.0

//go:build linux

package liberdma

import (
	"slices"
	"strings"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
	"purerdma/test/pairing/meeting"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

func TestDevinfo(t *testing.T) {
	for _, h := range vmtest.Hosts(t, 2) {
		p, err := pairing.Start(t.Context(), meeting.Program(t, "ibv_devinfo"), "-v", "-d", h.Device)
		if err != nil {
			t.Fatalf("pairing.Start: %v", err)
		}
		out, err := p.Wait(meeting.ClientLimit)
		if err != nil || out.Status != 0 {
			t.Fatalf("ibv_devinfo: %v, %v", err, out)
		}
		for _, want := range []string{"iWARP (1)", "vendor_id:\t\t\t0x1ded", "vendor_part_id:\t\t\t4223", "PORT_ACTIVE (4)", "max_qp_wr:\t\t\t8192"} {
			if !strings.Contains(out.Stdout, want) {
				t.Errorf("output for %s lacks %q:\n%s", h.Device, want, out.Stdout)
			}
		}
	}
}

// TestCM runs the programs of librdmacm. The kernel's driver connects over IPv4 only.
func TestCM(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	to, from := hosts[0].IPv4.String(), hosts[1].IPv4.String()
	for _, tc := range []struct {
		flags  string // flags of both
		server string // additional flags of the server.
		client string // additional flags of the client.
		stays  bool
	}{
		{flags: "rping -v -V -C 20 -S 1000", server: "-s -a SERVER", client: "-c -a SERVER -I CLIENT"},
		{flags: "rping -V -C 3 -S 65535", server: "-s -P -a SERVER", client: "-c -a SERVER -I CLIENT", stays: true},
		{flags: "ucmatose -c 10 -C 20 -S 1000", server: "-b SERVER", client: "-s SERVER -b CLIENT"},
		{flags: "cmtime -c 50", server: "-b SERVER", client: "-s SERVER -b CLIENT", stays: true},
		{flags: "rstream -S 4096 -C 100 -I 5 -T r", server: "-b SERVER", client: "-s SERVER"},
		{flags: "rstream -S 65536 -C 50 -I 5 -T n", server: "-b SERVER", client: "-s SERVER"},
		{flags: "riostream -S 4096 -C 50 -I 5", server: "-b SERVER", client: "-s SERVER"},
	} {
		t.Run(tc.flags, func(t *testing.T) {
			f, p := strings.Fields(tc.flags), meeting.Port()
			args := func(more string) []string {
				more = strings.NewReplacer("SERVER", to, "CLIENT", from).Replace(more)
				return slices.Concat(f[1:], []string{"-p", p}, strings.Fields(more))
			}
			meeting.Meeting{Program: f[0], Server: args(tc.server), Client: args(tc.client), Stays: tc.stays}.Run(t)
		})
	}
}

// TestPerftest runs the operations of RC. With events (-e) perftest waits for a completion of
// iWARP while it needs a credit of the receiver, which arrives without one. The programs of TestCM
// wait for events. Linux before 6.2 does not offer atomic operations.
func TestPerftest(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, flags := range []string{
		"ib_send_bw -n 100", "ib_send_bw -n 100 -b", "ib_write_bw -n 100 -q 4 -s 1000", "ib_write_bw -n 20 -s 1048576",
		"ib_read_bw -n 100", "ib_read_bw -n 20 -s 4194304 -o 16", "ib_write_bw -n 100 -s 64 -I 64",
	} {
		t.Run(flags, func(t *testing.T) {
			f, p := strings.Fields(flags), meeting.Port()
			args := func(i int) []string { return append(f[1:len(f):len(f)], "-R", "-F", "-d", hosts[i].Device, "-p", p) }
			meeting.Meeting{Program: f[0], Server: args(0), Client: append(args(1), hosts[0].IPv4.String()), ClientWant: "#bytes"}.Run(t)
		})
	}
}
