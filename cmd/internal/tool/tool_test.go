// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
)

func TestGetopt(t *testing.T) {
	for _, tc := range []struct{ args, want, rest, err string }{
		{"", "", "", ""},
		{"-v", "v", "", ""},
		{"-vs host -c3", "v s=host c=3", "", ""},
		{"a -v b -- -c x", "v", "a b -c x", ""},
		{"-", "", "-", ""},
		{"-c -1", "c=-1", "", ""},
		{"-vx -s", "v", "", "invalid option -- 'x'"},
		{"-v -s", "v", "", "option requires an argument -- 's'"},
		{"-:", "", "", "invalid option -- ':'"},
		{"--verbose", "", "", "invalid option -- '-'"},
	} {
		flags, rest, err := Getopt("s:vc:", strings.Fields(tc.args))
		var got []string
		for _, f := range flags {
			s := string(f.Name)
			if f.Value != "" {
				s += "=" + f.Value
			}
			got = append(got, s)
		}
		said := ""
		if err != nil {
			said = err.Error()
		}
		if strings.Join(got, " ") != tc.want || strings.Join(rest, " ") != tc.rest || said != tc.err {
			t.Errorf("Getopt(%q) = %q, rest %q, %v\nwant %q, rest %q, %s", tc.args, got, rest, err, tc.want, tc.rest, tc.err)
		}
	}
}

func FuzzGetopt(f *testing.F) {
	f.Add("s:vc:", "-vs host -c3 -- x")
	f.Fuzz(func(t *testing.T, spec, line string) {
		args := strings.Split(line, " ")
		flags, rest, err := Getopt(spec, args)
		if n := len(flags) + len(rest); err == nil && n > len(line)+1 {
			t.Fatalf("Getopt returned %d flags and arguments for %q", n, line)
		}
		for _, fl := range flags {
			if !strings.ContainsRune(spec, rune(fl.Name)) && fl.Name < 0x80 {
				t.Fatalf("Getopt returned flag %q, which is not in %q", fl.Name, spec)
			}
		}
	})
}

func TestNumbers(t *testing.T) {
	if n, err := (Flag{'c', "12"}).Int(0, 12); n != 12 || err != nil {
		t.Errorf("Int(0, 12) of 12 = %d, %v", n, err)
	}
	for _, s := range []string{"", "13", "-1", "1x", "0x1", "99999999999999999999"} {
		if _, err := (Flag{'c', s}).Int(0, 12); err == nil || err.Error() != "-c "+s+": want a number from 0 to 12" {
			t.Errorf("Int(0, 12) of %q = %v, want a range error", s, err)
		}
	}
	for s, want := range map[string]uint8{"0": 0, "255": 255, "0x1f": 31, "010": 8} {
		if n, err := (Flag{'t', s}).Octet(); n != want || err != nil {
			t.Errorf("Octet of %q = %d, %v, want %d", s, n, err, want)
		}
	}
	for _, s := range []string{"", "256", "-1", "x"} {
		if _, err := (Flag{'t', s}).Octet(); err == nil {
			t.Errorf("Octet of %q = nil error", s)
		}
	}
}

func TestStrerror(t *testing.T) {
	for want, err := range map[string]error{
		"Invalid argument":                syscall.EINVAL,
		"Connection refused":              fmt.Errorf("connect: %w", syscall.ECONNREFUSED),
		"Network is unreachable":          syscall.ENETUNREACH,
		"Unknown error 524":               syscall.Errno(524),
		"something else":                  errors.New("something else"),
		"Cannot assign requested address": syscall.EADDRNOTAVAIL,
	} {
		if got := Strerror(err); got != want {
			t.Errorf("Strerror(%v) = %q, want %q", err, got, want)
		}
	}
}

func TestUI(t *testing.T) {
	var out, errs bytes.Buffer
	u := &UI{Name: "x", Path: "/bin/x", Out: &out, Err: &errs}
	u.Printf("a%d\n", 1)
	u.Perror("it failed", fmt.Errorf("because: %w", syscall.EINVAL))
	u.Usage(&FlagError{Name: 'y'}, "\t[-z]\n")
	if want := "a1\nusage: /bin/x\n\t[-z]\n"; out.String() != want {
		t.Errorf("stdout = %q, want %q", &out, want)
	}
	if want := "it failed: Invalid argument\nx: because: invalid argument\n/bin/x: invalid option -- 'y'\n"; errs.String() != want {
		t.Errorf("stderr = %q, want %q", &errs, want)
	}
}

// TestOutputFailure checks that the UI keeps the error of a write to a full disk.
func TestOutputFailure(t *testing.T) {
	full := errors.New("disk full")
	u := &UI{Out: failingWriter{full}, Err: failingWriter{full}}
	if err := u.Printf("x"); !errors.Is(err, full) {
		t.Errorf("u.Printf = %v, want %v", err, full)
	}
	if err := u.Failure(); !errors.Is(err, full) {
		t.Errorf("u.Failure = %v, want %v", err, full)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestResolve(t *testing.T) {
	for _, tc := range []struct{ src, dst, service, local, remote string }{
		{"", "", "7471", "0.0.0.0:7471", ""},
		{"::0", "", "1", "[::]:1", ""},
		{"10.8.0.1", "", "1", "10.8.0.1:1", ""},
		{"", "10.8.0.1", "7471", "", "10.8.0.1:7471"},
		{"10.8.1.2", "10.8.0.1", "7471", "10.8.1.2:0", "10.8.0.1:7471"},
		{"", "fe80::1%eth0", "7471", "", "[fe80::1%eth0]:7471"},
	} {
		local, remote, err := (&Names{Source: tc.src, Dest: tc.dst, Service: tc.service}).Resolve(t.Context())
		if err != nil || local.String() != tc.local || remote.String() != tc.remote {
			t.Errorf("Resolve of %q, %q = %v, %v, %v, want %s, %s", tc.src, tc.dst, local, remote, err, tc.local, tc.remote)
		}
	}
	for _, tc := range []struct {
		names Names
		code  addrinfo.EAI
		text  string
	}{
		{Names{Service: "nosuchport"}, addrinfo.Service, "Servname not supported for ai_socktype"},
		{Names{Service: "1", Source: "localhost", Format: FormatNumeric}, addrinfo.NoName, "Name or service not known"},
		{Names{Service: "1", Dest: "localhost", Format: FormatNumeric}, addrinfo.NoName, "Name or service not known"},
	} {
		_, _, err := tc.names.Resolve(t.Context())
		if !errors.Is(err, tc.code) || Status(err) != int(tc.code) || addrinfo.Strerror(err) != tc.text {
			t.Errorf("%+v: %v", tc.names, err)
		}
	}
	if _, err := LookupHost(t.Context(), ""); !errors.Is(err, addrinfo.NoName) {
		t.Errorf("LookupHost error = %v, want %v", err, addrinfo.NoName)
	}
	if ip, err := LookupHost(t.Context(), "10.8.0.1"); ip != netip.MustParseAddr("10.8.0.1") || err != nil {
		t.Errorf("LookupHost(10.8.0.1) = %v, %v", ip, err)
	}
	local, _, err := (&Names{Source: "fe80::1", Service: "1", Format: FormatGID, Space: cm.PortSpaceIB}).Resolve(t.Context())
	if err != nil || local.IB.GID != netip.MustParseAddr("fe80::1").As16() {
		t.Errorf("Resolve of a GID = %+v, %v, want fe80::1", local, err)
	}
}

func TestWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Waiter
		n, done := 0, false
		go func() {
			if err := w.Until(t.Context(), func() bool { return n == 3 }); err != nil {
				t.Errorf("w.Until: %v", err)
			}
			w.Do(func() { done = true })
		}()
		for range 3 {
			synctest.Wait()
			w.Do(func() {
				if done {
					t.Errorf("Until returned before its condition held: n = %d", n)
				}
				n++
			})
		}
		synctest.Wait()
		w.Do(func() {
			if !done {
				t.Error("Until has not returned although its condition holds")
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Until(ctx, func() bool { return false }); !errors.Is(err, context.Canceled) {
			t.Errorf("w.Until = %v, want %v", err, context.Canceled)
		}
		if err := w.Until(ctx, func() bool { return true }); err != nil {
			t.Errorf("w.Until: %v", err)
		}
	})
}
