// SPDX-License-Identifier: Apache-2.0

package streamtest

import (
	"io"
	"strings"
	"testing"

	"purerdma/cmd/internal/tool"
)

func TestParse(t *testing.T) {
	k := &Kind{Name: "rstream", TestOptions: "sabfnrv", KeepAlive: true}
	for args, check := range map[string]func(*options) bool{
		"":                func(o *options) bool { return !o.custom && o.size == 1000 && o.names.Service == "7471" },
		"-s h -S all":     func(o *options) bool { return !o.custom && o.all && o.names.Dest == "h" },
		"-S 5 -I 2 -C 3":  func(o *options) bool { return o.custom && o.size == 5 && o.iterations == 2 && o.count == 3 },
		"-T v -T block":   func(o *options) bool { return o.verify && !o.tcp },
		"-T VERIFY -k 9":  func(o *options) bool { return o.verify && o.keepAlive == 9 },
		"-T s":            func(o *options) bool { return o.tcp },
		"-T sockets":      func(o *options) bool { return o.tcp },
		"-T f":            func(o *options) bool { return o.tcp },
		"-T b -T n":       func(o *options) bool { return !o.block },
		"-T r -i 7 -f ip": func(o *options) bool { return o.inline == 7 },
	} {
		opt, err := parse(k, strings.Fields(args), tool.NewUI("x", io.Discard, io.Discard))
		if err != nil || !check(opt) {
			t.Errorf("parse(%q) = %+v, %v", args, opt, err)
		}
	}
	for _, args := range []string{"-T x", "-T fo x", "-S x", "-x", "-S -1"} {
		if _, err := parse(k, strings.Fields(args), tool.NewUI("x", io.Discard, io.Discard)); err == nil {
			t.Errorf("parse(%q) succeeded, want an error", args)
		}
	}
}
