// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libbnxt_re

import (
	"slices"
	"strings"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing/meeting"
)

// TestCM runs the programs of librdmacm over both families.
func TestCM(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, tc := range []struct {
		flags  string // flags of both
		server string // additional flags of the server.
		client string // additional flags of the client.
		source string // the client's flag for its own address
		stays  bool
	}{
		{flags: "rping -v -V -C 20 -S 1000", server: "-s -a SERVER", client: "-c -a SERVER", source: "-I"},
		{flags: "rping -C 10 -S 65535", server: "-s -P -a SERVER", client: "-c -a SERVER", source: "-I", stays: true},
		{flags: "ucmatose -c 10 -C 20 -S 1000", server: "-b SERVER", client: "-s SERVER", source: "-b"},
		{flags: "udaddy -c 3 -C 20 -S 500", server: "-b SERVER", client: "-s SERVER", source: "-b"},
		{flags: "cmtime -c 50", server: "-b SERVER", client: "-s SERVER", source: "-b", stays: true},
		{flags: "rstream -S 4096 -C 100 -I 5 -T r", server: "-b SERVER", client: "-s SERVER"},
		{flags: "rstream -S 65536 -C 50 -I 5 -T n", server: "-b SERVER", client: "-s SERVER"},
		{flags: "riostream -S 4096 -C 50 -I 5", server: "-b SERVER", client: "-s SERVER"},
	} {
		for _, six := range []bool{false, true} {
			from, to := hosts[1].IPv4.String(), hosts[0].IPv4.String()
			name := tc.flags
			if six {
				from, to = hosts[1].IPv6.String(), hosts[0].IPv6.String()
				name += " IPv6"
			}
			t.Run(name, func(t *testing.T) {
				f := strings.Fields(tc.flags)
				p := []string{"-p", meeting.Port()}
				if f[0] == "udaddy" {
					p = nil // -p has another meaning there, and the port is fixed
				}
				args := func(more string) []string {
					return slices.Concat(f[1:], p, strings.Fields(strings.ReplaceAll(more, "SERVER", to)))
				}
				client := args(tc.client)
				if tc.source != "" {
					client = append(client, tc.source, from)
				}
				meeting.Meeting{Program: f[0], Server: args(tc.server), Client: client, Stays: tc.stays}.Run(t)
			})
		}
	}
}
