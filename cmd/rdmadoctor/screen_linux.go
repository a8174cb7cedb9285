// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns a function for the size of a terminal, nil for another output.
func terminalSize(out io.Writer) func() (rows, columns int) {
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	size := func() (rows, columns int, err error) {
		ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return 0, 0, err
		}
		return int(ws.Row), int(ws.Col), nil
	}
	if _, _, err := size(); err != nil {
		return nil
	}
	return func() (rows, columns int) {
		rows, columns, _ = size()
		return rows, columns
	}
}
