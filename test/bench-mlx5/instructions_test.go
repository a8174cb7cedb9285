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

// baseline has, for each minor version of Go and each row, how many instructions one
// request or one completion takes.
type baseline map[string]map[string]float64

const baselineFile = "testdata/instructions.json"

// worse is by which part more instructions fail the test. The counts of one request
// are the same in every run; those of several vary by one or two in a hundred, because
// the runtime interrupts them. Compilers of one minor version vary, too, a little.
const worse = 0.05

// gates are the rows that are held against the baseline.
var gates = []string{rowPost, rowUnlocked, rowBatch, rowBuilder, rowVerbs, rowVerbs2}

// TestInstructions counts the instructions of posting and polling and holds them
// against those that were committed for this version of Go.
//
//	go test ./test/bench-mlx5 -run Instructions -update
func TestInstructions(t *testing.T) {
	longtest.Need(t)
	text, err := os.ReadFile(baselineFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	all := baseline{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
	}
	version := minorVersion()
	want := all[version]
	if want == nil && !*update {
		t.Skipf("there is no baseline for %s: record one with -update", version)
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
					t.Fatalf("%s: %v", row, err)
				}
				got[row] = n
				switch was := want[row]; {
				case *update:
				case was == 0:
					t.Errorf("%s: %.1f instructions, and no baseline", row, n)
				case n > was*(1+worse):
					t.Errorf("%s: %.1f instructions, the baseline is %.1f", row, n, was)
				case n < was*(1-worse):
					t.Logf("%s: %.1f instructions, the baseline is %.1f: record it with -update", row, n, was)
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
		t.Fatal(err)
	}
	if err := os.WriteFile(baselineFile, append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// leastSteps counts the instructions of one request or completion until there are no
// more than enough. What the runtime does in between only adds to them, and does so
// oftener where the machine has other work.
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

// minorVersion returns the version of Go without its last part, as "go1.26".
func minorVersion() string {
	v, _, _ := strings.Cut(strings.TrimPrefix(runtime.Version(), "go"), "-")
	parts := strings.Split(v, ".")
	return "go" + strings.Join(parts[:min(2, len(parts))], ".")
}
