// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
)

// Control sequences of ECMA-48 and xterm.
const (
	screenAlternate = "\x1b[?1049h"
	screenNormal    = "\x1b[?1049l"
	cursorHide      = "\x1b[?25l"
	cursorShow      = "\x1b[?25h"
	cursorHome      = "\x1b[H"
	clearLine       = "\x1b[K" // from the cursor
	clearBelow      = "\x1b[J" // from the cursor
)

// screen shows lines. On a terminal they replace the lines before them. Otherwise they follow them, after
// an empty line.
type screen struct {
	out io.Writer
	// size returns the number of rows and columns of a terminal. It is nil for other outputs.
	size  func() (rows, columns int)
	shown bool
}

// newScreen returns a screen for an output.
func newScreen(out io.Writer) *screen { return &screen{out: out, size: terminalSize(out)} }

// open prepares a terminal.
func (s *screen) open() error {
	if s.size == nil {
		return nil
	}
	_, err := io.WriteString(s.out, screenAlternate+cursorHide)
	return err
}

// close restores a terminal.
func (s *screen) close() {
	if s.size != nil {
		io.WriteString(s.out, cursorShow+screenNormal)
	}
}

// show writes the lines at once. A terminal gets as many as it has room for.
func (s *screen) show(lines []string) error {
	var b strings.Builder
	if s.size == nil {
		if s.shown {
			b.WriteByte('\n')
		}
		s.shown = true
		for _, l := range lines {
			b.WriteString(l + "\n")
		}
	} else {
		rows, columns := s.size()
		b.WriteString(cursorHome)
		for i, l := range fit(lines, rows, columns) {
			if i > 0 {
				b.WriteString("\r\n")
			}
			b.WriteString(l + clearLine)
		}
		b.WriteString(clearBelow)
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// fit shortens lines to a size. The last row marks that lines are missing. A size of zero has no limit.
func fit(lines []string, rows, columns int) []string {
	out := make([]string, 0, len(lines))
	for i, l := range lines {
		if rows > 0 && i == rows-1 && len(lines) > rows {
			l = "..."
		} else if rows > 0 && i >= rows {
			break
		}
		if r := []rune(l); columns > 0 && len(r) > columns {
			l = string(r[:columns])
		}
		out = append(out, l)
	}
	return out
}
