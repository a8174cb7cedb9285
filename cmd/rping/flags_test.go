// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"purerdma/cmd/internal/addrinfo"
)

func testLookup(host string) (netip.Addr, error) {
	if host == "temporary" {
		return netip.Addr{}, fmt.Errorf("node %q, service \"\": %w", host, addrinfo.Again)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return ip, fmt.Errorf("node %q, service \"\": %w", host, addrinfo.NoName)
	}
	return ip, nil
}

func TestParse(t *testing.T) {
	addr := netip.MustParseAddr
	for _, tc := range []struct {
		args string
		want options
	}{
		{"-s", options{server: true}},
		{"-c -a 10.8.0.1", options{addr: addr("10.8.0.1")}},
		{"-s -c", options{}},
		{"-c -s", options{server: true}},
		{"-svVd", options{server: true, verbose: true, validate: true, debug: true}},
		{"-sPq", options{server: true, persistent: true, selfQP: true}},
		{"-sC10", options{server: true, count: 10}},
		{"-s -C 10", options{server: true, count: 10}},
		{"-svC 10 -S23", options{server: true, verbose: true, count: 10, size: 23}},
		{"-sS65535", options{server: true, size: 65535}},
		{"-s -C 10 -C 0", options{server: true}},
		{"-s -C 2147483647", options{server: true, count: 1<<31 - 1}},
		{"-s -a ::0 -p 1", options{server: true, addr: addr("::"), port: 1}},
		{"-s -p65535", options{server: true, port: 65535}},
		{"-c -a fe80::1%eth0 -I fd00::1", options{addr: addr("fe80::1%eth0"), source: addr("fd00::1")}},
		{"-s --", options{server: true}},
	} {
		var stdout, stderr bytes.Buffer
		got, status := parse(strings.Fields(tc.args), newUI(&stdout, &stderr), testLookup)
		if got == nil {
			t.Errorf("parse(%s) = status %d, output %s%s, want options", tc.args, status, &stdout, &stderr)
			continue
		}
		if tc.want.size == 0 {
			tc.want.size = 64
		}
		if tc.want.port == 0 {
			tc.want.port = 7174
		}
		if *got != tc.want || status != 0 {
			t.Errorf("parse(%s) = status %d, %+v\nwant %+v", tc.args, status, *got, tc.want)
		}
		if stderr.Len() > 0 {
			t.Errorf("parse(%s) wrote %q to stderr, want nothing", tc.args, &stderr)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"", 22, usage, ""},
		{"-v", 22, usage, ""},
		{"-h", 22, usage, ""},
		{"-s -x", 22, usage, ""},
		{"-sx -S 5", 22, usage, ""},
		{"--help", 22, usage, ""},
		{"-s -p", 22, usage, ""},
		{"-st 5", 22, usage, ""},
		{"-sS22", 22, "", "Invalid size 22 (valid range is 23 to 65536)\n"},
		{"-s -S 65537", 22, "", "Invalid size 65537 (valid range is 23 to 65536)\n"},
		{"-s -S -5", 22, "", "Invalid size -5 (valid range is 23 to 65536)\n"},
		{"-s -S 64x", 22, "", "Invalid size 64x (valid range is 23 to 65536)\n"},
		{"-s -S 99999999999999999999", 22, "", "Invalid size 99999999999999999999 (valid range is 23 to 65536)\n"},
		{"-s -S 65536", 22, "", "Invalid size 65536 (valid range is 23 to 65536)\nrping: -S 65536: the largest size is 65535\n"},
		{"-c -C -1", 22, "", "Invalid count -1\n"},
		{"-c -C many", 22, "", "Invalid count many\n"},
		{"-c -p 65536", 22, "", "Invalid port 65536 (valid range is 0 to 65535)\n"},
		{"-s 10.8.0.1", 22, "", "rping: unexpected argument \"10.8.0.1\": use -a for an address\n"},
		{"-c -- -v", 22, "", "rping: unexpected argument \"-v\": use -a for an address\n"},
		{"-c -a nosuch", 254, "getaddrinfo failed (Name or service not known) - invalid hostname or IP address\n", "rping: -a nosuch: node \"nosuch\", service \"\": the node is not known\n"},
		{"-cI nosuch -a 10.8.0.1", 254, "getaddrinfo failed (Name or service not known) - invalid hostname or IP address\n", "rping: -I nosuch: node \"nosuch\", service \"\": the node is not known\n"},
		{"-c -a temporary", 253, "getaddrinfo failed (Temporary failure in name resolution) - invalid hostname or IP address\n", "rping: -a temporary: node \"temporary\", service \"\": the name server does not answer now\n"},
	} {
		var stdout, stderr bytes.Buffer
		got, status := parse(strings.Fields(tc.args), newUI(&stdout, &stderr), testLookup)
		if got != nil || status != tc.status || stdout.String() != tc.stdout || stderr.String() != tc.stderr {
			t.Errorf("parse(%q) = %+v, status %d, want status %d\nstdout %q\nwant   %q\nstderr %q\nwant   %q",
				tc.args, got, status, tc.status, &stdout, tc.stdout, &stderr, tc.stderr)
		}
	}
}

// The C program reports each flag that follows -d.
func TestParseDebug(t *testing.T) {
	var stdout bytes.Buffer
	parse(strings.Fields("-v -d -s -vV -C10 -S 64 -p 1"), newUI(&stdout, &stdout), testLookup)
	if want := "server\nverbose\nvalidate data\ncount 10\nsize 64\nport 1\n"; stdout.String() != want {
		t.Errorf("parse printed %q, want %q", &stdout, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"-s", "-c -a 10.8.0.1 -C 10", "-svVd -S100", "-p -1", "--", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		var out bytes.Buffer
		opt, status := parse(strings.Split(args, " "), newUI(&out, &out), testLookup)
		if (opt == nil) == (status == 0) {
			t.Fatalf("parse(%q) = options %v, status %d, want either", args, opt, status)
		}
		if opt == nil && out.Len() == 0 {
			t.Fatalf("parse(%q) = status %d without a message", args, status)
		}
		if opt != nil && (opt.size < minSize || opt.size > maxSize || opt.count < 0) {
			t.Fatalf("parse(%q) = %+v, which is out of range", args, opt)
		}
	})
}
