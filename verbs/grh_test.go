// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/hex"
	"errors"
	"strings"
	"syscall"
	"testing"
)

// These are a well-known IPv4 header with its checksum, an IPv6 header and a GRH.
var (
	ipv4 = unhex("450000730000400040" + "11b861" + "c0a80001" + "c0a800c7")
	ipv6 = unhex("6a512345" + "0040" + "11" + "3f" + "fd000008000000000000000000000001" + "fd000009000000000000000000000002")
	grh  = unhex("6a512345" + "0040" + "1b" + "ff" + "fe80000000000000505400fffe000001" + "fe80000000000000505400fffe000002")
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestParseRoute(t *testing.T) {
	junk := func(first byte, ip []byte) []byte { return append(append([]byte{first}, make([]byte, 19)...), ip...) }
	broken := append([]byte(nil), ipv4...)
	broken[10]++
	v4 := route{
		route: GlobalRoute{DGID: mapped([]byte{192, 168, 0, 1}), HopLimit: 0x40},
		to:    mapped([]byte{192, 168, 0, 199}), typ: GIDTypeRoCEv2,
	}
	six := func(b []byte, typ GIDType) route {
		return route{route: GlobalRoute{DGID: GID(b[8:24]), FlowLabel: 0x12345, HopLimit: b[7], TrafficClass: 0xa5}, to: GID(b[24:40]), typ: typ}
	}
	for _, c := range []struct {
		name string
		in   []byte
		want route
		err  string
	}{
		{"IPv4 after zeros", junk(0, ipv4), v4, ""},
		{"IPv4 after what looks like IPv6", junk(0x60, ipv4), v4, ""},
		{"IPv6", ipv6, six(ipv6, GIDTypeRoCEv2), ""},
		{"GRH", grh, six(grh, GIDTypeRoCEv1), ""},
		{"longer", append(append([]byte(nil), grh...), 1, 2, 3), six(grh, GIDTypeRoCEv1), ""},
		{"wrong checksum after what looks like IPv6", junk(0x60, broken), route{}, "next header 0x0"},
		{"neither", make([]byte, 40), route{}, "version 0"},
		{"TCP", append(append(append([]byte(nil), ipv6[:6]...), 6), ipv6[7:]...), route{}, "next header 0x6"},
		{"short", grh[:39], route{}, "39 bytes of GRH"},
		{"nothing", nil, route{}, "0 bytes of GRH"},
	} {
		got, err := parseRoute(c.in)
		if c.err == "" {
			if err != nil || got != c.want {
				t.Errorf("%s: parseRoute = %+v, %v, want\n%+v, nil", c.name, got, err, c.want)
			}
		} else if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: parseRoute = %+v, %v, want EINVAL with %q", c.name, got, err, c.err)
		}
	}
}

// TestSenderToAGroup checks that the reply to a multicast message is sent from the GID of the
// membership.
func TestSenderToAGroup(t *testing.T) {
	toGroup := append(make([]byte, 20), ipv4...)
	copy(toGroup[36:], []byte{239, 8, 8, 8})
	group := &AHAttr{Global: true, Port: 1, GRH: GlobalRoute{SGIDIndex: 3}}
	wc := &WC{Flags: WCGRH}
	d := &Device{deviceContext: &deviceContext{}}
	want := AHAttr{Global: true, Port: 1, GRH: GlobalRoute{DGID: mapped([]byte{192, 168, 0, 1}), HopLimit: 0x40, SGIDIndex: 3}}
	if got, err := d.AHAttrFromGroupWC(group, wc, toGroup); err != nil || got != want {
		t.Errorf("AHAttrFromGroupWC = %+v, %v, want\n%+v, nil", got, err, want)
	}
	for name, f := range map[string]func() (AHAttr, error){
		"no GRH":  func() (AHAttr, error) { return d.AHAttrFromGroupWC(group, &WC{}, toGroup) },
		"garbage": func() (AHAttr, error) { return d.AHAttrFromGroupWC(group, wc, make([]byte, 40)) },
		"short":   func() (AHAttr, error) { return d.AHAttrFromGroupWC(group, wc, toGroup[:39]) },
	} {
		if a, err := f(); !errors.Is(err, syscall.EINVAL) || a != (AHAttr{}) {
			t.Errorf("%s = %+v, %v, want EINVAL", name, a, err)
		}
	}
}

// FuzzParseRoute checks that the input contains every parsed field.
func FuzzParseRoute(f *testing.F) {
	f.Add(ipv6)
	f.Add(grh)
	f.Add(append(make([]byte, 20), ipv4...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRoute(b)
		if err != nil {
			if r != (route{}) || !errors.Is(err, syscall.EINVAL) {
				t.Errorf("parseRoute = %+v, %v, want %+v, EINVAL", r, err, (route{}))
			}
			return
		}
		if len(b) < GRHLen || r.route.SGIDIndex != 0 || r.route.FlowLabel > 0xfffff {
			t.Errorf("parseRoute = %+v, want a GRH without a GID index", r)
		}
		if s := string(b); !strings.Contains(s, string(r.route.DGID[12:])) || !strings.Contains(s, string(r.to[12:])) {
			t.Errorf("parseRoute = %+v, want addresses from the input", r)
		}
	})
}
