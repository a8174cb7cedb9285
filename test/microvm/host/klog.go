// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

// trouble lists the kernel's messages about its own failures. It excludes messages about
// programs ("segfault at"), and messages of the rxe driver about failed work requests, which
// tests provoke.
var trouble = []string{
	"Kernel panic", "BUG:", "Oops", "WARNING:", "Call Trace:", "kernel BUG at",
	"general protection fault", "unable to handle", "blocked for more than",
	"soft lockup", "hard LOCKUP", "detected stalls",
	"KASAN:", "KCSAN:", "UBSAN:", "KMSAN:", "refcount_t:", "DEADLOCK", "possible recursive locking",
}

// troubled reports whether a line of the log contains one of them as whole words.
func troubled(line string) bool {
	return !userTrap(line) && slices.ContainsFunc(trouble, func(words string) bool {
		for from := 0; ; {
			at := strings.Index(line[from:], words)
			if at < 0 {
				return false
			}
			at, from = from+at, from+at+len(words)
			if !endsInWord(line[:at]) && (!endsInWord(words) || !startsWord(line[from:])) {
				return true
			}
		}
	})
}

// userTrap matches reports about programs that look like reports about the kernel, such as
// "traps: prog[123] general protection fault".
func userTrap(line string) bool {
	_, rest, ok := strings.Cut(line, "traps: ")
	name, _, _ := strings.Cut(rest, " ")
	return ok && strings.Contains(name, "[") && strings.HasSuffix(name, "]")
}

func startsWord(s string) bool { return s != "" && isWord(rune(s[0])) }
func endsInWord(s string) bool { return s != "" && isWord(rune(s[len(s)-1])) }

func isWord(c rune) bool {
	return c == '_' || c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c))
}

// scanLog returns the part of a kernel log with trouble, including a few lines before and after
// it. It returns nil for a log without trouble.
func scanLog(log []byte) []byte {
	lines := bytes.Split(bytes.ReplaceAll(log, []byte("\r"), nil), []byte("\n"))
	for i, l := range lines {
		if troubled(string(l)) {
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
