// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// buildOurs builds the Go benchmark with the flags of the committed counts.
func buildOurs(t *testing.T) string { return buildTagged(t, "") }

// buildTagged is like buildOurs, with build tags.
func buildTagged(t *testing.T, tags string) string {
	t.Helper()
	// The test reads the sources because it does not import them. Without that, the go command would return
	// a cached result after a change.
	out, err := exec.Command("go", "list", "-tags", tags, "-deps", "-f", `{{if and .Module .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}
{{end}}{{range .SFiles}}{{$d}}/{{.}}
{{end}}{{end}}`, "./ours").Output()
	sources := strings.Fields(string(out))
	if err != nil || len(sources) < 100 {
		t.Fatalf("sources of the benchmark = %d, %v, want some", len(sources), err)
	}
	for _, name := range sources {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatalf("os.ReadFile(name): %v", err)
		}
	}
	bin := filepath.Join(t.TempDir(), "ours")
	if err := goBuild(t.Context(), "ours", bin, tags, "CGO_ENABLED=0", "GOAMD64=v1", "GOFLAGS="); err != nil {
		t.Fatalf("goBuild: %v", err)
	}
	return bin
}

// countSteps returns the cost of one call of a subject, with a batch of requests. It counts one call at a
// time, because the runtime would interrupt the goroutine during a longer count. The lowest of several
// counts belongs to a call without interruption.
func countSteps(bin string, s *subject, kind string, batch int) (cost, error) {
	run, f := kind, s.poll
	if kind == "poll" {
		run = "write"
	} else {
		f = s.post[kind]
	}
	calls := 16 / batch
	args := append(slices.Clone(s.args), run, strconv.Itoa(batch), strconv.Itoa(calls), strconv.Itoa(batch))
	counts, err := steps(bin, args, []string{"GOGC=off", "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1"}, f)
	if err != nil {
		return cost{}, err
	}
	if len(counts) != calls {
		return cost{}, fmt.Errorf("calls of %s = %d, want more", f, len(counts))
	}
	return slices.MinFunc(counts, func(a, b cost) int { return a.instructions - b.instructions }), nil
}
