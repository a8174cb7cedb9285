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
		t.Fatalf("parse = %d rows, want 4", len(rows))
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
			t.Errorf("row %d = %+v, want %+v", i, got, want)
		}
	}
	if rows := parse([]string{"-run", "TestA", "./cm"}); len(rows) != 1 || rows[0].run != "TestA" || !slices.Equal(rows[0].patterns, []string{"./cm"}) {
		t.Errorf("parse of one row = %+v", rows[0])
	}
}

// TestProgram checks the arguments of a test program and the number of its tests.
func TestProgram(t *testing.T) {
	defer func(old []knownSkip) { knownSkips = old }(knownSkips)
	knownSkips = []knownSkip{{driver: "siw", pkg: "cm", tests: "TestA.* TestB/sub"}}
	tests := []string{"TestA", "TestAB", "TestB", "TestC", "TestSlowD"}
	r := parse([]string{"-vm", "-driver siw", "-skip", "^TestSlow"})[0]
	p := r.program("/dir", "cm", "cm.test", tests, nil)
	if p.tests != 2 || p.left != 2 || !slices.Contains(p.args, "-test.skip=^TestA.*$|^TestB$/^sub$|^TestSlow") {
		t.Errorf("program = %+v, want 2 tests, 2 left out and the skip patterns", p)
	}
	r.run = "TestC|TestB/sub"
	if p := r.program("/dir", "cm", "cm.test", tests, nil); p.tests != 2 || p.left != 0 || !slices.Contains(p.args, "-test.run="+r.run) {
		t.Errorf("program with -run = %+v, want 2 tests", p)
	}
	r = parse([]string{"-skip", "^Test(A|B)$|^Test(Slow.*)$"})[0]
	if p := r.program("/dir", "cm", "cm.test", tests, nil); p.tests != 2 {
		t.Errorf("program with alternatives in parentheses = %+v, want 2 tests", p)
	}
	r = parse([]string{"-skip", "^TestSlow"})[0]
	if p := r.program("/dir", "cm", "cm.test", tests, []string{"TestB", "TestC"}); p.tests != 2 || !slices.Contains(p.args, "-test.skip=^TestSlow|^(TestB|TestC)$") {
		t.Errorf("program without two tests for this machine = %+v, want 2 tests and their names in the skip pattern", p)
	}
	if p := parse(nil)[0].program("/dir", "cm", "cm.test", tests, nil); p.tests != 5 || p.left != 0 {
		t.Errorf("program on rxe = %+v, want 5 tests", p)
	}
}
