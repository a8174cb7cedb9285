// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

func defaults() options {
	return options{names: tool.Names{Service: "7471", Space: cm.PortSpaceTCP}, conns: 1, count: 10, size: 100}
}

func TestParse(t *testing.T) {
	octet := func(n uint8) *uint8 { return &n }
	for _, tc := range []struct {
		args   string
		change func(*options)
		stderr string
	}{
		{"", func(*options) {}, ""},
		{"-s a -b b -p 1", func(o *options) { o.names.Dest, o.names.Source, o.names.Service = "a", "b", "1" }, ""},
		{"-c 3 -C4 -S 5 -m", func(o *options) { o.conns, o.count, o.size, o.migrate = 3, 4, 5, true }, ""},
		{"-S 0 -C 5", func(o *options) { o.count, o.size = 0, 0 }, ""},
		{"-C 0", func(o *options) { o.count = 0 }, ""},
		{"-t 0x20 -a 19", func(o *options) { o.tos, o.ackTimeout = octet(32), octet(19) }, ""},
		{"-f ipv6 -P TCP", func(o *options) { o.names.Format = tool.FormatNumeric }, ""},
		{"-f GID -P ib", func(o *options) { o.names.Format, o.names.Space = tool.FormatGID, cm.PortSpaceIB }, ""},
		{"-f name", func(*options) {}, ""},
		{"-f x -P x", func(*options) {}, "Warning: unknown address format\nWarning: unknown port space format\n"},
	} {
		var stdout, stderr bytes.Buffer
		want := defaults()
		tc.change(&want)
		got, err := parse(strings.Fields(tc.args), &tool.UI{Out: &stdout, Err: &stderr})
		if err != nil || !reflect.DeepEqual(*got, want) || stderr.String() != tc.stderr {
			t.Errorf("parse(%s) = %+v, %v, stderr %q\nwant %+v %q", tc.args, got, err, &stderr, want, tc.stderr)
		}
	}
	for args, want := range map[string]string{
		"-x":            "invalid option -- 'x'",
		"-s":            "option requires an argument -- 's'",
		"-c -1":         "-c -1: want a number from 0 to 1048576",
		"-C many":       "-C many: want a number from 0 to 1048576",
		"-S 9999999999": "-S 9999999999: want a number from 0 to 1073741824",
		"-t 256":        "-t 256: want a number from 0 to 255",
		"-a x":          "-a x: want a number from 0 to 255",
		"10.8.0.1":      `unexpected argument "10.8.0.1": use -s for a server`,
	} {
		if _, err := parse(strings.Fields(args), &tool.UI{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}); err == nil || err.Error() != want {
			t.Errorf("parse(%s) = %v, want %s", args, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-s a -b b -c 3 -C4 -S 5 -m -t 0x20 -a 19 -f gid -P ib")
	f.Fuzz(func(t *testing.T, args string) {
		opt, err := parse(strings.Split(args, " "), &tool.UI{Out: new(bytes.Buffer), Err: new(bytes.Buffer)})
		if (opt == nil) == (err == nil) {
			t.Fatalf("parse(%q) = %v, %v, want either", args, opt, err)
		}
		if opt != nil && (opt.conns < 0 || opt.count < 0 || opt.size < 0 || opt.count > 0 && opt.size == 0) {
			t.Fatalf("parse(%q) = %+v, which is out of range", args, opt)
		}
	})
}
