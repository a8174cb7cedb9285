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

// pathLocks counts the locked instructions of the functions that programs call to post and to
// poll. The locked instruction is for the lock, which a queue for one goroutine skips.
// TestLockedPerCall of test/bench/provider shows this by executing the instructions one by one.
var pathLocks = map[string]int{
	"(*QP).PostSend": 1, "(*QP).PostRecv": 1, "(*SRQ).PostRecv": 1, "(*CQ).Poll": 1, "(*CQ).PollExtended": 1,
	"(*QP).BatchBegin": 1, "(*QP).BatchAdd": 0, "(*QP).BatchPost": 0,
	"(*QP).BatchWrite": 0, "(*QP).BatchSend": 0, "(*QP).BatchSendInline": 0, "(*QP).BatchWriteInline": 0,
}

// offPath lists functions that pathLocks's functions call, but whose locked instructions a
// valid request on its own QP does not execute, with the reasons. The functions that they call
// are not checked.
var offPath = map[string]string{
	"(*Lock).slow":             "another goroutine holds the lock",
	"(*sendQueue).publishSlow": "the register's lock: other QPs ring there",
	"(*recordedQP).receives":   "the Recorder's lock: other queues are recorded there",
	"(*recordedCQ).completion": "the same",
	"(*recordedSRQ).receives":  "the same",
	"(*QP).notReady":           "an error",
	"(*QP).recvNotReady":       "an error",
	"(*SRQ).setLimit":          "a command",
	"(*SRQ).complete":          "the SRQ's lock: others poll its receives from other CQs",
	"(*SRQ).repost":            "the same",
	"(*CQ).fail":               "a completion that makes no sense",
	"(*CQ).completeFailed":     "the requests of a QP that such a completion named",
	"(*CQ).addLost":            "the requests whose completions are lost",
	"(*CQ).lockToCopy":         "the lock of an Unlocked CQ: others close the memory of data that a completion brings",
}

// TestLockedInstructions checks the compiled program. The functions that post and poll must
// have one locked instruction for the lock, and the functions that they call must have none.
func TestLockedInstructions(t *testing.T) {
	code := disassemble(t)
	offPathSeen := map[string]bool{}
	var visit func(name, from string)
	seen := map[string]bool{}
	visit = func(name, from string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if offPath[name] != "" {
			offPathSeen[name] = true
			return
		}
		f, ok := code[name]
		if !ok {
			t.Errorf("the program does not contain %s, which %s calls", name, from)
			return
		}
		if want := pathLocks[name]; f.locked != want {
			t.Errorf("%s, called by %s, has %d locked instructions, want %d", name, from, f.locked, want)
		}
		for _, callee := range f.calls {
			visit(callee, name)
		}
	}
	for name := range pathLocks {
		visit(name, "a program")
	}
	for name := range offPath {
		if !offPathSeen[name] {
			t.Errorf("offPath lists %s, which is not called", name)
		}
	}
	if len(seen) < 30 {
		t.Errorf("%d functions checked, want at least 30: %v", len(seen), seen)
	}
}

// function describes the disassembly of one function.
type function struct {
	locked int
	calls  []string // functions of this package, spin and mmio, by name
}

var (
	lockedInstruction = regexp.MustCompile(`\b(LOCK|XCHG[BWLQ]?|XADD[BWLQ]?|MFENCE)\b`)
	callInstruction   = regexp.MustCompile(`\b(?:CALL|JMP) purerdma/(?:provider/mlx5|provider/internal/spin|internal/mmio)\.(\S+)\(SB\)`)
)

// disassemble builds the program and returns the functions of this package, spin and mmio.
func disassemble(t *testing.T) map[string]function {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to build and disassemble with")
	}
	bin := filepath.Join(t.TempDir(), "mlx5.test")
	if out, err := exec.Command("go", "test", "-c", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v: %s", err, out)
	}
	out, err := exec.Command("go", "tool", "objdump", "-s", `^purerdma/(provider/mlx5|provider/internal/spin|internal/mmio)\.`, bin).CombinedOutput()
	if err != nil {
		t.Fatalf("go tool objdump: %v: %s", err, out)
	}
	all := map[string]function{}
	name := ""
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "TEXT ") {
			name = strings.TrimSuffix(fields[1], "(SB)")
			for _, pkg := range []string{"provider/mlx5", "provider/internal/spin", "internal/mmio"} {
				name = strings.TrimPrefix(name, "purerdma/"+pkg+".")
			}
			all[name] = function{}
			continue
		}
		f := all[name]
		if lockedInstruction.MatchString(line) {
			f.locked++
		}
		if m := callInstruction.FindStringSubmatch(line); m != nil && m[1] != name {
			f.calls = append(f.calls, m[1])
		}
		all[name] = f
	}
	return all
}
