// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && !race && !purego

package mlx5

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLockedInstructions finds one locked instruction in Poll, for
// the lock, which a CQ of one goroutine jumps over, and none in what it calls.
func TestLockedInstructions(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command, to build and disassemble with")
	}
	bin := filepath.Join(t.TempDir(), "mlx5.test")
	if out, err := exec.Command("go", "test", "-c", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command("go", "tool", "objdump", "-s", `^purerdma/provider/mlx5\.(\(\*CQ\)\.(Poll|take|requests|receives|other|requested|received|requestFailed|find)|fillReceive)$`, bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	locked := regexp.MustCompile(`\b(LOCK|XCHG[BWLQ]?|XADD[BWLQ]?|MFENCE)\b`)
	got := map[string]int{}
	name := ""
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "TEXT ") {
			name = fields[1][strings.LastIndexByte(fields[1], '.')+1:]
			name = strings.TrimSuffix(name, "(SB)")
			got[name] = 0
		} else if locked.MatchString(line) {
			got[name]++
		}
	}
	if len(got) != 10 {
		t.Fatalf("found %v", got)
	}
	for name, n := range got {
		if want := map[string]int{"Poll": 1}[name]; n != want {
			t.Errorf("%s has %d locked instructions, want %d", name, n, want)
		}
	}
}
