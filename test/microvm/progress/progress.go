// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package progress tells somebody who waits what goes on, without filling
// the logs of those who do not.
package progress

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Show writes a line that the next one replaces, if w is a terminal. An
// empty text only removes the last.
func Show(w io.Writer, format string, args ...any) {
	f, ok := w.(*os.File)
	if !ok {
		return
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		fmt.Fprintf(f, "\r\x1b[K"+format, args...)
	}
}

// Watch shows how much of total bytes has arrived in the directory dir,
// until the function returned is called.
func Watch(w io.Writer, what, dir string, total int64) (stop func()) {
	done := make(chan struct{})
	go func() {
		for t := time.NewTicker(500 * time.Millisecond); ; {
			select {
			case <-done:
				t.Stop()
				return
			case <-t.C:
				Show(w, "rdmavm: %s: %.0f of %.0f MB", what, float64(size(dir))/1e6, float64(total)/1e6)
			}
		}
	}()
	return func() { close(done); Show(w, "") }
}

// size returns the size of the packages in dir, half-loaded ones too.
func size(dir string) (n int64) {
	for _, pattern := range []string{"*.deb", "partial/*.deb"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range files {
			if st, err := os.Stat(f); err == nil {
				n += st.Size()
			}
		}
	}
	return n
}
