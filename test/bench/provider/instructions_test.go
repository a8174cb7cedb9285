// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"purerdma/internal/longtest"
)

var update = flag.Bool("update", false, "write what is counted as the new baseline")

// baseline has the instructions of one request or one completion, for each minor version of Go and each row.
type baseline map[string]map[string]float64

const baselineFile = "testdata/instructions.json"

// worse is the relative increase of instructions that fails the test. The counts of one request are equal in
// every run. The counts of several requests vary by 1 % or 2 %, because the runtime interrupts them.
// Compilers of one minor version also vary a little.
const worse = 0.05

// gates lists the rows that are compared with the baseline.
var gates = []string{rowPost, rowUnlocked, rowBatch, rowBuilder, rowVerbs, rowVerbs2}

// TestInstructions counts the instructions of posting and polling, and compares them with the committed
// counts for this version of Go.
//
//	go test ./test/bench/provider -run Instructions -update
func TestInstructions(t *testing.T) {
	longtest.Need(t)
	text, err := os.ReadFile(baselineFile)
	if err != nil && !*update {
		t.Fatalf("os.ReadFile(baselineFile): %v", err)
	}
	all := baseline{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
	}
	version := minorVersion()
	want := all[version]
	if want == nil && !*update {
		t.Skipf("no baseline for %s (record one with -update)", version)
	}
	bin := buildOurs(t)
	got := map[string]float64{}
	for i := range subjects {
		s := &subjects[i]
		if !slices.Contains(gates, s.name) {
			continue
		}
		for _, batch := range []int{1, 4} {
			for _, kind := range append([]string{"poll"}, cases...) {
				row := fmt.Sprintf("%s, %s, %d", s.name, kind, batch)
				enough := want[row] * (1 + worse)
				if *update {
					enough = 0
				}
				n, err := leastSteps(bin, s, kind, batch, enough)
				if errors.Is(err, errNoPtrace) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatalf("leastSteps(%s): %v", row, err)
				}
				got[row] = n
				switch was := want[row]; {
				case *update:
				case was == 0:
					t.Errorf("instructions of %s = %.1f, but the baseline has no such row", row, n)
				case n > was*(1+worse):
					t.Errorf("instructions of %s = %.1f, want about %.1f", row, n, was)
				case n < was*(1-worse):
					t.Logf("instructions of %s = %.1f, the baseline is %.1f (record with -update)", row, n, was)
				}
			}
		}
	}
	if !*update {
		return
	}
	all[version] = got
	out, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		t.Fatalf("json.MarshalIndent: %v", err)
	}
	if err := os.WriteFile(baselineFile, append(out, '\n'), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}

// leastSteps counts the instructions of one request or completion several times, until the count is at most
// enough. Instructions of the runtime only add to the count, more often if the machine has other work.
func leastSteps(bin string, s *subject, kind string, batch int, enough float64) (least float64, err error) {
	const tries = 5
	for i := range tries {
		c, err := countSteps(bin, s, kind, batch)
		if err != nil {
			return 0, err
		}
		if n := float64(c.instructions) / float64(batch); i == 0 || n < least {
			least = n
		}
		if least <= enough {
			break
		}
	}
	return least, nil
}

// minorVersion returns the version of Go without its last part, such as "go1.26".
func minorVersion() string {
	v, _, _ := strings.Cut(strings.TrimPrefix(runtime.Version(), "go"), "-")
	parts := strings.Split(v, ".")
	return "go" + strings.Join(parts[:min(2, len(parts))], ".")
}
