// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"purerdma/cm"
)

func TestHintLoopback(t *testing.T) {
	addr := func(s string) cm.Addr {
		if s == "" {
			return cm.Addr{}
		}
		return cm.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr(s), 7471))
	}
	of := func(op string, err error) error { return &cm.OpError{Op: op, Err: err} }
	const why = "no RDMA device has a loopback address: take that of an interface that has one\n"
	for _, tc := range []struct {
		local, remote string
		err           error
		want          string
	}{
		{"", "127.0.0.1", of("resolve", syscall.ENODEV), "x: 127.0.0.1: " + why},
		{"10.8.0.1", "::1", fmt.Errorf("run: %w", of("resolve the route", syscall.EINVAL)), "x: ::1: " + why},
		{"", "0.0.0.0", of("resolve", syscall.ENODEV), "x: 0.0.0.0 is taken for a loopback address, and " + why},
		{"127.0.0.1", "10.8.0.1", &cm.OpError{Op: "resolve", Err: &cm.UnreachableError{Event: cm.EventAddrError, Status: -int(syscall.EINVAL)}},
			"x: 127.0.0.1: " + why},
		{"127.0.0.1", "", of("bind", syscall.ENODEV), "x: 127.0.0.1: " + why},
		{"", "10.8.0.1", of("resolve", syscall.ENODEV), ""},
		{"0.0.0.0", "10.8.0.1", of("resolve", syscall.ENODEV), ""},
		{"", "127.0.0.1", of("connect", syscall.EINVAL), ""},       // siw has a device on lo,
		{"", "127.0.0.1", of("connect", syscall.ECONNREFUSED), ""}, // on siw's device of lo somebody may be there, or not
		{"", "127.0.0.1", nil, ""},
		{"", "127.0.0.1", of("resolve", fmt.Errorf("%w (said already: loopback)", syscall.ENODEV)), ""},
		{"", "127.0.0.1", errors.New("something else"), ""},
	} {
		var out, errs bytes.Buffer
		(&UI{Name: "x", Out: &out, Err: &errs}).HintLoopback(tc.err, addr(tc.local), addr(tc.remote))
		if errs.String() != tc.want || out.Len() > 0 {
			t.Errorf("%q->%q, %v: %q%q, want %q", tc.local, tc.remote, tc.err, &out, &errs, tc.want)
		}
	}
}
