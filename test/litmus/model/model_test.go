// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"testing"
)

// program parses threads, which "|" separates, and their operations, which ";" separates. "x=1"
// stores, "a<x" loads and "a~x=1" swaps. "x=1!" stores with release, and "a<x!" loads with acquire.
// "x=1*" stores to combining memory. "if a" is a dependency. Other words are fences.
func program(t *testing.T, text string) []Thread {
	t.Helper()
	fences := map[string]FenceKind{"mfence": MFENCE, "sfence": SFENCE, "dmb": DMBISH, "dmbst": DMBISHST, "dmbld": DMBISHLD, "oshst": DMBOSHST, "dsbst": DSBST}
	var threads []Thread
	for part := range strings.SplitSeq(text, "|") {
		var th Thread
		part, th.Device = strings.CutPrefix(strings.TrimSpace(part), "device:")
		for word := range strings.SplitSeq(part, ";") {
			word = strings.TrimSpace(word)
			strong := strings.HasSuffix(word, "!")
			combining := strings.HasSuffix(word, "*")
			word = strings.TrimRight(word, "!*")
			if f, ok := fences[word]; ok {
				th.Ops = append(th.Ops, Op{Kind: Fence, Fence: f})
			} else if reg, ok := strings.CutPrefix(word, "if "); ok {
				th.Ops = append(th.Ops, Op{Kind: If, Reg: reg})
			} else if reg, store, ok := strings.Cut(word, "~"); ok {
				th.Ops = append(th.Ops, Op{Kind: Swap, Reg: reg, Loc: store[:1], Value: int(store[2] - '0'), Acquire: strong, Release: strong})
			} else if reg, loc, ok := strings.Cut(word, "<"); ok {
				th.Ops = append(th.Ops, Op{Kind: Load, Reg: reg, Loc: loc, Acquire: strong})
			} else if loc, value, ok := strings.Cut(word, "="); ok {
				th.Ops = append(th.Ops, Op{Kind: Store, Loc: loc, Value: int(value[0] - '0'), Release: strong, Combining: combining})
			} else {
				t.Fatalf("%q is no operation", word)
			}
		}
		threads = append(threads, th)
	}
	return threads
}

// possible reports whether an outcome such as "a=1 b=0" is possible.
func possible(arch Arch, threads []Thread, outcome string) bool {
	found := false
	Outcomes(arch, threads, func(o Outcome) bool {
		found = true
		for cond := range strings.FieldsSeq(outcome) {
			name, value, _ := strings.Cut(cond, "=")
			if got, ok := o[name]; !ok || got != int(value[0]-'0') {
				found = false
			}
		}
		return !found
	})
	return found
}

// TestKnownResults has the well-known tests, with the results that the architectures publish.
func TestKnownResults(t *testing.T) {
	for _, tc := range []struct {
		name, program, outcome string
		amd64, arm64           bool // whether the outcome is possible
	}{
		{"SB", "x=1;a<y | y=1;b<x", "a=0 b=0", true, true},
		{"SB with fences", "x=1;mfence;dmb;a<y | y=1;mfence;dmb;b<x", "a=0 b=0", false, false},
		{"SB with one fence", "x=1;mfence;dmb;a<y | y=1;b<x", "a=0 b=0", true, true},
		{"SB with store fences", "x=1;sfence;dsbst;a<y | y=1;sfence;dsbst;b<x", "a=0 b=0", true, true},
		{"SB with release and acquire", "x=1!;a<y! | y=1!;b<x!", "a=0 b=0", true, false},
		{"SB with swaps", "p~x=1;a<y | q~y=1;b<x", "a=0 b=0", false, true},
		{"MP", "x=1;y=1 | a<y;b<x", "a=1 b=0", false, true},
		{"MP, the happy outcome", "x=1;y=1 | a<y;b<x", "a=1 b=1", true, true},
		{"MP with release", "x=1;y=1! | a<y;b<x", "a=1 b=0", false, true},
		{"MP with acquire", "x=1;y=1 | a<y!;b<x", "a=1 b=0", false, true},
		{"MP with both", "x=1;y=1! | a<y!;b<x", "a=1 b=0", false, false},
		{"MP with fences", "x=1;dmbst;y=1 | a<y;dmbld;b<x", "a=1 b=0", false, false},
		{"MP with a branch", "x=1;dmbst;y=1 | a<y;if a;b<x", "a=1 b=0", false, true},
		{"LB", "a<x;y=1 | b<y;x=1", "a=1 b=1", false, true},
		{"LB with branches", "a<x;if a;y=1 | b<y;if b;x=1", "a=1 b=1", false, false},
		{"LB with one release", "a<x;y=1! | b<y;x=1", "a=1 b=1", false, true},
		{"LB with releases", "a<x;y=1! | b<y;x=1!", "a=1 b=1", false, false},
		{"S", "x=2;y=1 | a<y;if a;x=1", "a=1 [x]=2", false, true},
		{"S with a fence", "x=2;dmbst;y=1 | a<y;if a;x=1", "a=1 [x]=2", false, false},
		{"R", "x=1;y=1 | y=2;a<x", "[y]=2 a=0", true, true},
		{"R with fences", "x=1;dmb;y=1 | y=2;mfence;dmb;a<x", "[y]=2 a=0", false, false},
		{"2+2W", "x=1;y=2 | y=1;x=2", "[x]=1 [y]=1", false, true},
		{"2+2W with fences", "x=1;dmbst;y=2 | y=1;dmbst;x=2", "[x]=1 [y]=1", false, false},
		{"WRC", "x=1 | a<x;y=1 | b<y;c<x", "a=1 b=1 c=0", false, true},
		{"WRC with acquire and release", "x=1 | a<x;y=1! | b<y!;c<x", "a=1 b=1 c=0", false, false},
		{"IRIW", "x=1 | y=1 | a<x;b<y | c<y;d<x", "a=1 b=0 c=1 d=0", false, true},
		{"IRIW with acquire", "x=1 | y=1 | a<x!;b<y | c<y!;d<x", "a=1 b=0 c=1 d=0", false, false},
		{"CoRR", "x=1 | a<x;b<x", "a=1 b=0", false, false},
		{"CoWW", "x=1;x=2", "[x]=1", false, false},
		{"CoRW", "a<x;x=1", "a=1", false, false},
		{"CoWR", "x=1;a<x", "a=0", false, false},
		{"swaps are atomic", "a~x=1 | b~x=2", "a=0 b=0", false, false},
		{"swaps in a row", "a~x=1 | b~x=2", "a=2 b=0", true, true},
		{"a store between load and store of a swap", "a~x=2 | x=1", "a=0 [x]=2", false, false},
		{"forwarding", "x=1;a<x;b<y | y=1;c<y;d<x", "a=1 b=0 c=1 d=0", true, true},
		// Combining memory and devices.
		{"combining store", "x=1;y=1* | a<y!;b<x", "a=1 b=0", true, true},
		{"combining store after DMB", "x=1;oshst;y=1* | a<y!;b<x", "a=1 b=0", true, true},
		{"combining store after SFENCE and DSB", "x=1;sfence;dsbst;y=1* | a<y!;b<x", "a=1 b=0", false, false},
		{"combining store before release", "y=1*;x=1! | a<x!;b<y", "a=1 b=0", true, true},
		{"device", "x=1;oshst;y=1 | device: a<y;b<x", "a=1 b=0", false, false},
		{"device without a fence", "x=1;y=1 | device: a<y;b<x", "a=1 b=0", false, true},
		{"device outside of the fence's domain", "x=1;dmbst;y=1 | device: a<y;b<x", "a=1 b=0", false, true},
	} {
		threads := program(t, tc.program)
		for arch, want := range []bool{AMD64: tc.amd64, ARM64: tc.arm64} {
			if got := possible(Arch(arch), threads, tc.outcome); got != want {
				t.Errorf("%s: %q on %v: %s is possible = %v, want %v", tc.name, tc.program, []string{"amd64", "arm64"}[arch], tc.outcome, got, want)
			}
		}
	}
}
