// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/test/oracle/vector"
)

// judged runs checks and judges their report. It returns the exit status and the judgment.
func judged(t *testing.T, p *program, only, vectors string) (int, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	var out, errs bytes.Buffer
	if status := p.run(t.Context(), []string{"run", "-o", file, "-only", only}, &out, &errs); status > statusFailed {
		t.Fatalf("run(-only %s) = %d, stderr %s, want a report", only, status, errs.String())
	}
	out.Reset()
	status := newProgram().run(t.Context(), []string{"judge", "-vectors", vectors, file}, &out, &errs)
	t.Log(out.String(), errs.String())
	return status, out.String()
}

// TestJudge judges a report about the software ConnectX, which confirms nothing, and reads its vectors.
func TestJudge(t *testing.T) {
	dir := t.TempDir()
	status, text := judged(t, onModel(), "vectors,fence,reset", dir)
	for _, want := range []string{"model mlx5_0", "PASS    fence", "vectors/recording.jsonl: ", "undecided    fence", "reset/recording.jsonl: ", "the device agrees, but it is no card"} {
		if !strings.Contains(text, want) {
			t.Errorf("run(judge) = %s, want %q in it", text, want)
		}
	}
	if status != 0 || strings.Contains(text, "contradicted") || strings.Contains(text, "without evidence") {
		t.Errorf("run(judge) = %d, %s, want 0 and no contradiction", status, text)
	}
	f, err := vector.ReadFile(filepath.Join(dir, "vectors+recording.jsonl"))
	if err != nil {
		t.Fatalf("vector.ReadFile: %v", err)
	}
	if n := len(f.Sessions[0].Records); n < 100 {
		t.Errorf("run(judge) wrote vectors with %d records, want the whole scenario", n)
	}
}

// TestJudgeDefects judges reports about defective devices. Each contradicts a belief.
func TestJudgeDefects(t *testing.T) {
	for kind, tc := range map[string]struct{ only, want string }{
		"broken":  {"fence", "contradicted fence"},
		"swapped": {"completion-data", "contradicted receive-counters"},
	} {
		status, text := judged(t, onBroken(kind), tc.only, t.TempDir())
		if status != statusFailed || !strings.Contains(text, tc.want) {
			t.Errorf("run(judge) of a device that is %s = %d, %s, want %d and %q", kind, status, text, statusFailed, tc.want)
		}
	}
}

// TestJudgeRefuses checks that a file that is no report is refused.
func TestJudgeRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("this is not an archive"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	for _, name := range []string{file, file + "-missing"} {
		var out, errs bytes.Buffer
		if status := newProgram().run(t.Context(), []string{"judge", name}, &out, &errs); status != statusNoReport || errs.Len() == 0 {
			t.Errorf("run(judge %s) = %d, stderr %s, want %d and an error", name, status, errs.String(), statusNoReport)
		}
	}
}
