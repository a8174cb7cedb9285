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

// buildOurs builds the benchmark of ours as the committed counts have it.
func buildOurs(t *testing.T) string {
	t.Helper()
	// The go command knows what the result of a test depends on by the files that the
	// test reads, if it does not import them: it would answer from its cache.
	out, err := exec.Command("go", "list", "-deps", "-f", `{{if and .Module .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}
{{end}}{{range .SFiles}}{{$d}}/{{.}}
{{end}}{{end}}`, "./ours").Output()
	sources := strings.Fields(string(out))
	if err != nil || len(sources) < 100 {
		t.Fatalf("%d sources of ours, %v", len(sources), err)
	}
	for _, name := range sources {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(t.TempDir(), "ours")
	if err := goBuild(t.Context(), "ours", bin, "CGO_ENABLED=0", "GOAMD64=v1", "GOFLAGS="); err != nil {
		t.Fatal(err)
	}
	return bin
}

// countSteps returns what one call of a subject takes, with a batch of requests. One
// call is counted at a time: longer, and the runtime would interrupt the goroutine.
// The lowest of several is that of a call that nothing interrupted.
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
		return cost{}, fmt.Errorf("%s was called %d times", f, len(counts))
	}
	return slices.MinFunc(counts, func(a, b cost) int { return a.instructions - b.instructions }), nil
}
