// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestRedact checks that addresses disappear, and that versions, times and PCI addresses stay.
func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"from 10.8.0.1:7471 on":                 "from <address>:7471 on",
		"mac 02:00:5e:10:00:fe, mlx5_0":         "mac <address>, mlx5_0",
		"gid fe80::5eff:fe10:1 is gone":         "gid <address> is gone",
		"gid fe80:0000:0000:0000:0202:c903:0:1": "gid <address>",
		"guid 0002:c903:0042:1234":              "guid <address>",
		"to ::1 and ::ffff:10.8.0.1":            "to <address> and <address>",
		"firmware 22.36.1010 of 0000:3b:00.0":   "firmware 22.36.1010 of 0000:3b:00.0",
		"at 12:34:56, kernel 6.1.0-50":          "at 12:34:56, kernel 6.1.0-50",
		"std::vector":                           "std::vector",
	} {
		if got := string(redact([]byte(in))); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestHasAddresses checks which recordings contain addresses of ports.
func TestHasAddresses(t *testing.T) {
	for in, want := range map[string]bool{
		`{"t":"qp","id":"qp1","type":"RC"}`:  false,
		`{"t":"qp","id":"qp1","type":"UD"}`:  true,
		`{"t":"qp","id":"qp1","type":"DCI"}`: true,
		"":                                   false,
	} {
		if got := hasAddresses([]byte(in)); got != want {
			t.Errorf("hasAddresses(%s) = %v, want %v", in, got, want)
		}
	}
}
