// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

func TestFlags(t *testing.T) {
	const usage = "Usage:\n  PATH            start a server"
	for _, tc := range []struct {
		kind      Kind
		args      string
		out, errs string // prefixes of the output for a bad line
		check     func(*options) bool
	}{
		{RC, "", "", "", func(o *options) bool {
			return o.server == "" && o.port == 18515 && o.ibPort == 1 && o.size == 4096 && o.mtu == verbs.MTU1024 && o.depth == 500 && o.iters == 1000 && o.gid == -1 && o.qps == 1
		}},
		{UD, "", "", "", func(o *options) bool { return o.size == 1024 }},
		{SRQ, "", "", "", func(o *options) bool { return o.qps == 16 }},
		{RC, "host --port=0x10 -d rxe1 -i2 -s 010 -m 4096 -r 7 -n 0 -l 3 -g 1 -ecN", "", "", func(o *options) bool {
			return o.server == "host" && o.port == 16 && o.dev == "rxe1" && o.ibPort == 2 && o.size == 8 && o.mtu == verbs.MTU4096 &&
				o.depth == 7 && o.iters == 0 && o.sl == 3 && o.gid == 1 && o.events && o.check && o.newSend
		}},
		{RC, "-O -P", "", "", func(o *options) bool { return o.odp && o.iodp && o.fetch }},
		{RC, "-U", "", "", func(o *options) bool { return o.unprot }},
		{RC, "--allow-cc-unprotected -o", "", "CoCo unprotected memory cannot be used with ODP\n", nil},
		{RC, "-j -U", "", "CoCo unprotected memory cannot be used with device memory\n", nil},
		{UC, "-U", usage, "PATH: invalid option -- 'U'\n", nil},
		{RC, "-o -j", "", "DM memory region can't be on demand\n", nil},
		{RC, "-P", "", "prefetch is valid only with on-demand memory region\n", nil},
		{SRQ, "-q 20 -r 10", "", "rx_depth 10 is too small for 20 QPs -- must have at least one receive per QP.\n", nil},
		{SRQ, "-q 256", "", "num_qp 256 must be less than 255\n", nil},
		{UC, "-o", usage, "PATH: invalid option -- 'o'\n", nil},
		{UD, "-m 256", usage, "PATH: invalid option -- 'm'\n", nil},
		{RC, "-m 1000", usage, "name: -m 1000: unknown MTU\n", nil},
		{RC, "-p 65536", usage, "name: -p 65536: want a number from 0 to 65535\n", nil},
		{RC, "-s 12x", usage, "name: -s 12x: ", nil},
		{RC, "-i 0", usage, "name: -i 0: ", nil},
		{RC, "a b", usage, "name: unexpected argument \"b\"\n", nil},
		{RC, "--events=1", usage, "PATH: option '--events' doesn't allow an argument\n", nil},
	} {
		t.Run(tc.kind.Name+" "+tc.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			o, err := tc.kind.parse(&tool.UI{Name: "name", Path: "PATH", Out: &out, Err: &errs}, strings.Fields(tc.args))
			if (err == nil) != (tc.check != nil) || err == nil && !tc.check(o) {
				t.Errorf("parse = %+v, %v, want success %t", o, err, tc.check != nil)
			}
			if !strings.HasPrefix(out.String(), tc.out) || !strings.HasPrefix(errs.String(), tc.errs) || err == nil && out.Len()+errs.Len() > 0 {
				t.Errorf("parse printed %q and %q, want %q and %q", &out, &errs, tc.out, tc.errs)
			}
		})
	}
}

func TestNoDevice(t *testing.T) {
	var out, errs bytes.Buffer
	if status := RC.run(context.Background(), []string{"-d", "nosuchdevice"}, &out, &errs); status != 1 || out.Len() > 0 || errs.Len() == 0 {
		t.Errorf("run(-d nosuchdevice) = %d, printed %q and %q, want 1 and an error", status, &out, &errs)
	}
}

func TestFixed(t *testing.T) {
	for want, f := range map[string]float64{"1.50": 1.5, "inf": math.Inf(1), "-nan": math.NaN(), "0.00": 0} {
		if got := fixed(f); got != want {
			t.Errorf("fixed(%v) = %q, want %q", f, got, want)
		}
	}
}
