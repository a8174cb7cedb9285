// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"purerdma/verbs"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]func(*options) bool{
		"":              func(o *options) bool { return o.server == "" && o.port == 18515 },
		"-p 7 -B ::1":   func(o *options) bool { return o.server == "" && o.port == 7 && o.source == "::1" },
		"write_bw -s 9": func(o *options) bool { return o.server == "" },
		"write_bw h": func(o *options) bool {
			return o.count == 5000 && slices.Equal(o.sizes, []int{65536}) && o.Depth == 128 && o.Inline == 0
		},
		"send_bw -q 8 -l 4 h":  func(o *options) bool { return o.count == 1000 && o.QPs == 8 && o.List == 4 && !o.kind.echo },
		"send_lat h":           func(o *options) bool { return slices.Equal(o.sizes, []int{2}) && o.Inline == 64 && o.kind.echo },
		"read_lat -e -I 0 h":   func(o *options) bool { return o.Events && o.Inline == 0 && !o.kind.echo && o.moderation() == 1 },
		"read_bw -a h":         func(o *options) bool { return len(o.sizes) == 23 && o.Max == 1<<23 && o.kind.opcode == verbs.OpRead },
		"atomic_bw -s 8 h":     func(o *options) bool { return slices.Equal(o.sizes, []int{8}) },
		"write_bw -D 1.5 h":    func(o *options) bool { return o.duration == 1500*time.Millisecond && o.count == 0 },
		"write_bw -R --json h": func(o *options) bool { return o.json && o.CM },
		"-R -d x":              func(o *options) bool { return o.CM && o.device == "x" && o.server == "" },
		"send_bw -c ud -F -Q 3 h": func(o *options) bool {
			return o.connection == verbs.UD && o.head() == verbs.GRHLen && o.moderation() == 3 && !o.CM
		},
		"send_bw -e h":                           func(o *options) bool { return o.access() == verbs.LocalWrite|verbs.RelaxedOrdering },
		"read_lat h":                             func(o *options) bool { return o.access() == verbs.LocalWrite|verbs.RemoteRead|verbs.RelaxedOrdering },
		"write_lat h":                            func(o *options) bool { return o.access() == verbs.LocalWrite|verbs.RemoteWrite },
		"write_bw --disable_pcie_relaxed -q 2 h": func(o *options) bool { return o.access() == verbs.LocalWrite|verbs.RemoteWrite },
		"write_bw --cqe-size 128 h":              func(o *options) bool { return o.CQESize == 128 },
		"write_bw -verify -t 1 h":                func(o *options) bool { return o.Verify && o.moderation() == 1 },
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil || !want(o) {
			t.Errorf("parse(%q) = %+v, %v, want other options", args, o, err)
		}
	}
	for args, want := range map[string]string{
		"send h":                      "no test",
		"recv_bw h":                   "no test",
		"h":                           "no test",
		"-n 1 h":                      "no test",
		"send_bw h i":                 `unexpected argument "i"`,
		"-R send_bw h":                "send_bw must come before the flags",
		"-R send_bw":                  "send_bw must come before the flags",
		"send_bw -x h":                "-x",
		"send_bw -x 256 h":            "-x 256",
		"send_bw -I some h":           "-I: parse error",
		"send_bw -i 0 h":              "-i 0",
		"send_bw -u 32 h":             "timeout",
		"send_bw -Q 200 h":            "each completion",
		"send_bw -c XRC h":            "-c XRC",
		"send_bw -c UC -R h":          "type RC, not UC",
		"send_bw -c UD -R h":          "type RC, not UD", // supported by perftest
		"send_bw -b h":                "not defined: -b", // and both directions at once
		"atomic_bw -A CMP_AND_SWAP h": "not defined: -A",
		"read_bw -c UC h":             "UC do not support read",
		"write_lat -c UD h":           "UD do not support write",
		"send_bw -p 70000 h":          "-p 70000",
		"send_bw -a -s 3 h":           "exclude each other",
		"send_bw -n 3 -D 3 h":         "exclude each other",
		"send_bw -n -3 h":             "-n -3",
		"send_bw -D -3 h":             "-D -3",
		"send_bw -D NaN h":            "-D NaN",
		"send_bw -s -1 h":             "size",
		"send_bw -q 0 h":              "QPs",
		"send_bw -t 0 h":              "outstanding",
		"send_bw -t 4 -l 5 h":         "each doorbell",
		"send_bw -I 99999 h":          "inline",
		"send_bw -s 999999999 -q 9 h": "buffers",
		"send_lat -q 2 h":             "one QP",
		"atomic_bw -s 16 h":           "8 bytes",
		"write_lat -e h":              "no event",
		"write_bw --cqe-size 96 h":    "completions of 96 bytes",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q) = %v, want %s", args, err, want)
		}
	}
}

// TestHelp checks that a default that is not a number is only described in words.
func TestHelp(t *testing.T) {
	var out strings.Builder
	if _, err := parse([]string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parse error = %v, want %v", err, flag.ErrHelp)
	}
	for _, want := range []string{"copied into its request (0, latency of send and write 64)\n", "of the GID (chosen by address and type), without -R\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("usage lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "default -1") {
		t.Errorf("usage contains a default of -1:\n%s", out.String())
	}
}

// TestMemoryOfAPlan checks that the parts of the QPs do not overlap and cover the whole buffer.
func TestMemoryOfAPlan(t *testing.T) {
	p := plan{Max: 4097, QPs: 3}
	end := 0
	for lane := range p.QPs {
		for _, at := range []int{p.outgoing(lane), p.incoming(lane)} {
			if at != end {
				t.Errorf("QP %d: offset = %d, want %d", lane, at, end)
			}
			end = at + p.stride()
		}
	}
	if int64(end) != p.memory() || p.stride() != 8192 {
		t.Errorf("memory() = %d, stride() = %d, want %d and 8192", p.memory(), p.stride(), end)
	}
}
