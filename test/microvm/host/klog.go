// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"regexp"
)

// trouble matches what a kernel prints when something in it went wrong. What
// it says about programs ("segfault at") and what the rxe driver says about
// work requests that fail, as tests make them, is not among it.
var trouble = regexp.MustCompile(`Kernel panic|\bBUG:|\bOops\b|\bWARNING:|Call Trace:|kernel BUG at|` +
	`general protection fault|unable to handle|blocked for more than|soft lockup|hard LOCKUP|detected stalls|` +
	`\b(KASAN|KCSAN|UBSAN|KMSAN):|refcount_t:|DEADLOCK|possible recursive locking`)

// userTrap matches reports about programs that look like the kernel's own.
var userTrap = regexp.MustCompile(`traps: \S+\[\d+\]`)

// scanLog returns the part of a kernel log that speaks of trouble: from a
// few lines before it to some after it. It is nil for a good log.
func scanLog(log []byte) []byte {
	lines := bytes.Split(bytes.ReplaceAll(log, []byte("\r"), nil), []byte("\n"))
	for i, l := range lines {
		if trouble.Match(l) && !userTrap.Match(l) {
			return bytes.Join(lines[max(0, i-5):min(len(lines), i+60)], []byte("\n"))
		}
	}
	return nil
}

// tail returns the last n lines of a log.
func tail(log []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(bytes.ReplaceAll(log, []byte("\r"), nil)), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
