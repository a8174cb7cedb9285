// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package progress tells somebody who waits what goes on, without filling
// the logs of those who do not.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Show writes a line that the next one replaces, if w is a terminal. An
// empty text only removes the last.
func Show(w io.Writer, format string, args ...any) {
	if isTerminal(w) {
		fmt.Fprintf(w, "\r\x1b[K"+format, args...)
	}
}

// every is how long a log that is no terminal waits for the next line of Watch.
const every = 10 * time.Second

// Watch shows how much of total bytes has arrived, until the function returned is
// called: on a terminal all the time, elsewhere by a line now and then.
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
