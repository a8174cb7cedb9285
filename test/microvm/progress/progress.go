// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package progress shows the progress of long operations to the user, without filling logs.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Show writes a line that the next line replaces, if w is a terminal. An empty text only
// removes the last line.
func Show(w io.Writer, format string, args ...any) {
	if isTerminal(w) {
		fmt.Fprintf(w, "\r\x1b[K"+format, args...)
	}
}

// every is the interval between lines of Watch in a log that is no terminal.
const every = 10 * time.Second

// Watch shows how many of total bytes have arrived, until stop is called. It updates a line on
// a terminal, and writes a line at intervals otherwise.
func Watch(w io.Writer, what string, arrived func() int64, total int64) (stop func()) {
	line := func() string {
		return fmt.Sprintf("rdmavm: %s: %.0f of %.0f MB", what, float64(arrived())/1e6, float64(total)/1e6)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(500 * time.Millisecond)
		defer t.Stop()
		for next := time.Now().Add(every); ; {
			select {
			case <-done:
				return
			case now := <-t.C:
				if isTerminal(w) {
					Show(w, "%s", line())
				} else if now.After(next) {
					next = now.Add(every)
					fmt.Fprintln(w, line())
				}
			}
		}
	})
	return func() { close(done); wg.Wait(); Show(w, "") }
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
