// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"purerdma/test/microvm/wire"
)

func TestParse(t *testing.T) {
	f, err := parse([]string{"-hosts", "2", "-vms", "-numa", "2", "-packages", "a,b", "-packages", "c", "-modules", "bonding,sch_netem", "-share", "/x", "-kernel", "7", "--", "prog", "-v", "-test.timeout=1h"})
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	if f.Hosts != 2 || !f.VMs || f.Nodes != 2 || f.Kernel != "7" || f.Verbose || f.terminal || f.prepare || f.Headers ||
		!slices.Equal(f.Packages, []string{"a", "b", "c"}) || !slices.Equal(f.Modules, []string{"bonding", "sch_netem"}) || !slices.Equal(f.Shares, []string{"/x"}) ||
		!slices.Equal(f.Commands[0].Args, []string{"prog", "-v", "-test.timeout=1h"}) || f.Timeout != time.Hour+time.Minute {
		t.Errorf("parse = %+v, want the values of the flags", f)
	}
	if f, err = parse([]string{"-timeout", "3s", "prog"}); err != nil || f.Timeout != 3*time.Second {
		t.Errorf("parse(-timeout 3s) = %+v, %v", f, err)
	}
	if f, err = parse([]string{"-timeout", "0", "prog"}); err != nil || f.Timeout != 0 {
		t.Errorf("parse(-timeout 0) = %+v, %v", f, err)
	}
	for _, bad := range []string{"-nosuch", "-list /nonexistent", "-list /dev/null prog", "-root none"} {
		if _, err := parse(strings.Fields(bad)); err == nil {
			t.Errorf("parse(%s) = nil error", bad)
		}
	}
}

func TestDefaultTimeout(t *testing.T) {
	for args, want := range map[string]time.Duration{
		"prog":                                 10 * time.Minute,
		"prog -test.timeout=10m0s":             11 * time.Minute,
		"prog --test.timeout=1s":               10 * time.Minute,
		"prog -test.timeout=0":                 0,
		"prog -test.timeout=0s -test.v":        0,
		"prog -test.v=true -test.timeout=2h3m": 2*time.Hour + 4*time.Minute,
	} {
		if got := defaultTimeout([]wire.Command{{Args: strings.Fields(args)}}, false); got != want {
			t.Errorf("defaultTimeout(%s) = %v, want %v", args, got, want)
		}
	}
}

func TestParseList(t *testing.T) {
	got, err := parseList(strings.NewReader(`{"dir": "a", "args": ["x", "y"], "env": ["B=2"]}
{"args": ["z"]}
{"dir": "/abs", "args": ["z"]}`), "/m", []string{"A=1"})
	if err != nil || len(got) != 3 {
		t.Fatalf("parseList = %+v, %v, want 3 commands", got, err)
	}
	if got[0].Dir != "/m/a" || got[1].Dir != "/m" || got[2].Dir != "/abs" || !slices.Equal(got[0].Env, []string{"A=1", "B=2"}) || !slices.Equal(got[1].Env, []string{"A=1"}) {
		t.Errorf("parseList = %+v, want other directories or environments", got)
	}
	for _, bad := range []string{"", "x", `{"args": []}`, `{"dir": "a"}`, `{"args": ["x"], "dri": "a"}`} {
		if _, err := parseList(strings.NewReader(bad), "/", nil); err == nil {
			t.Errorf("parseList(%q) = nil error", bad)
		}
	}
}

// FuzzParseList checks that each command of a list has a program and an absolute directory.
func FuzzParseList(f *testing.F) {
	f.Add(`{"dir": "a", "args": ["x", "y"], "env": ["B=2"]} {"args": ["z"]}`)
	f.Add(`{"dir": "../../..", "args": [""]}`)
	f.Add(`{"args": ["x"], "dri": "a"}`)
	f.Add(`[] null {}`)
	f.Fuzz(func(t *testing.T, list string) {
		commands, err := parseList(strings.NewReader(list), "/m", []string{"A=1"})
		if (err == nil) != (len(commands) > 0) {
			t.Fatalf("parseList = %d commands, %v, want either", len(commands), err)
		}
		for _, c := range commands {
			if len(c.Args) == 0 || !filepath.IsAbs(c.Dir) || len(c.Env) == 0 || c.Env[0] != "A=1" {
				t.Fatalf("parseList returned %+v, want arguments, an absolute directory and the environment", c)
			}
		}
	})
}

func TestParseModules(t *testing.T) {
	for s, want := range map[string][]string{
		"":                                 nil,
		"bonding,sch_netem":                {"bonding", "sch_netem"},
		"bonding max_bonds=3 mode=1,dummy": {"bonding max_bonds=3 mode=1", "dummy"},
		"dummy  bonding max_bonds=3":       {"dummy", "bonding max_bonds=3"},
	} {
		if got, err := parseModules(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("parseModules(%q) = %q, %v, want %q", s, got, err, want)
		}
	}
	if got, err := parseModules("max_bonds=3 bonding"); err == nil {
		t.Errorf("parseModules of a parameter alone = %q, want an error", got)
	}
}
