// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"regexp"
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

// knownReport is a kernel warning about a known driver fault. Tests provoke such a fault by
// chance, and it does not change their results.
type knownReport struct {
	warning *regexp.Regexp // matches the first line
	within  []byte         // occurs in the report
}

// knownReports lists the warnings that do not fail a run. Each is in
// docs/data/driver-faults.json, and make faults provokes it.
var knownReports = []knownReport{
	// A QP was closed while it received a packet of its own device.
	{regexp.MustCompile(`WARNING: .* rxe_sched_task\+0x`), []byte(" rxe_xmit_packet+0x")},
}

// reportEnd is in the last line of a warning.
var reportEnd = []byte("---[ end trace ")

// known returns the number of lines of the known report at the beginning of lines. It returns
// 0 if there is none, or if the report contains another one.
func known(lines [][]byte) int {
	for _, k := range knownReports {
		if !k.warning.Match(lines[0]) {
			continue
		}
		found := false
		for i, l := range lines[1:] {
			switch {
			case bytes.Contains(l, reportEnd) && found:
				return i + 2
			case bytes.Contains(l, reportEnd),
				!bytes.Contains(l, []byte("Call Trace:")) && troubled(string(l)):
				return 0
			}
			found = found || bytes.Contains(l, k.within)
		}
	}
	return 0
}

// scanLog returns the part of a kernel log with trouble, including a few lines before and after
// it. It returns nil for a log without trouble. excused has the first line of each known
// report before that.
func scanLog(log []byte) (bad []byte, excused [][]byte) {
	lines := bytes.Split(bytes.ReplaceAll(log, []byte("\r"), nil), []byte("\n"))
	for i := 0; i < len(lines); i++ {
		if !troubled(string(lines[i])) {
			continue
		}
		n := known(lines[i:])
		if n == 0 {
			return bytes.Join(lines[max(0, i-5):min(len(lines), i+60)], []byte("\n")), excused
		}
		excused = append(excused, lines[i])
		i += n - 1
	}
	return nil, excused
}

// tail returns the last n lines of a log.
func tail(log []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(bytes.ReplaceAll(log, []byte("\r"), nil)), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
