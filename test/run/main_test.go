// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	rows := parse(strings.Fields("-rping x -- -host ./a -- -vm=-driver=siw -skip TestA ./b ./c -- -check -name c true -- -long"))
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	for i, want := range []row{
		{host: true, patterns: []string{"./a"}},
		{name: "Linux 6.1, siw", skip: "TestA", vmFlags: "-driver=siw", patterns: []string{"./b", "./c"}},
		{check: true, name: "c", patterns: []string{"true"}},
		{long: true, patterns: []string{"./..."}},
	} {
		got := rows[i]
		if got.rping != "x" || got.host != want.host || got.check != want.check || got.long != want.long || got.skip != want.skip ||
			got.vmFlags != want.vmFlags || want.name != "" && got.name != want.name || !slices.Equal(got.patterns, want.patterns) {
			t.Errorf("row %d is %+v, want %+v", i, got, want)
		}
	}
	if rows := parse([]string{"-run", "TestA", "./cm"}); len(rows) != 1 || rows[0].run != "TestA" || !slices.Equal(rows[0].patterns, []string{"./cm"}) {
		t.Errorf("one row: %+v", rows[0])
	}
}

// TestProgram: what is run of a test program, and how many tests those are.
func TestProgram(t *testing.T) {
	defer func(old []lack) { lacks = old }(lacks)
	lacks = []lack{{driver: "siw", pkg: "cm", tests: "TestA.* TestB/sub"}}
	tests := []string{"TestA", "TestAB", "TestB", "TestC", "TestSlowD"}
	r := parse([]string{"-vm", "-driver siw", "-skip", "^TestSlow"})[0]
	p := r.program("/dir", "cm", "cm.test", tests)
	if p.tests != 2 || p.left != 2 || !slices.Contains(p.args, "-test.skip=^TestA.*$|^TestB$/^sub$|^TestSlow") {
		t.Errorf("%+v", p)
	}
	r.run = "TestC|TestB/sub"
	if p := r.program("/dir", "cm", "cm.test", tests); p.tests != 2 || p.left != 0 || !slices.Contains(p.args, "-test.run="+r.run) {
		t.Errorf("with -run: %+v", p)
	}
	r = parse([]string{"-skip", "^Test(A|B)$|^Test(Slow.*)$"})[0]
	if p := r.program("/dir", "cm", "cm.test", tests); p.tests != 2 {
		t.Errorf("with alternatives in parentheses: %+v", p)
	}
	if p := parse(nil)[0].program("/dir", "cm", "cm.test", tests); p.tests != 5 || p.left != 0 {
		t.Errorf("on rxe: %+v", p)
	}
}
