// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"purerdma/cm"
)

// UI is where a program speaks. Each call writes once, so that the lines of
// several goroutines do not mix.
type UI struct {
	Name string // the program's
	Path string // as it was called, which usage and bad flags print
	Out  io.Writer
	Err  io.Writer

	mu     sync.Mutex
	failed error // the first failure to write to Out
}

// NewUI returns the UI of the running program.
func NewUI(name string, stdout, stderr io.Writer) *UI {
	return &UI{Name: name, Path: os.Args[0], Out: stdout, Err: stderr}
}

// Printf prints to standard output. A failure to do so, as on a full disk, is
// kept for Failure.
func (u *UI) Printf(format string, args ...any) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := fmt.Fprintf(u.Out, format, args...); err != nil && u.failed == nil {
		u.failed = fmt.Errorf("standard output: %w", err)
	}
	return u.failed
}

// Errorf prints to standard error.
func (u *UI) Errorf(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprintf(u.Err, format, args...)
}

// Perror prints what perror(3) would: what failed, and why as the C library says
// it. The whole of err follows in a line of its own.
func (u *UI) Perror(what string, err error) {
	u.Errorf("%s: %s\n%s: %v\n", what, Strerror(err), u.Name, err)
}

// Fail prints an error that the C program has no words for.
func (u *UI) Fail(err error) { u.Errorf("%s: %v\n", u.Name, err) }

// Failure returns the first failure to print to standard output.
func (u *UI) Failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// Usage reports a bad command line: the reason and, on standard output, the
// usage that the C program shows there.
func (u *UI) Usage(err error, usage string) {
	u.Errorf("%s: %v\n", u.Path, err)
	u.Printf("usage: %s\n%s", u.Path, usage)
}

// Strerror returns the text that strerror(3) has for the errno in err, or err's
// own where there is none. A rejection is what librdmacm makes of it.
func Strerror(err error) string {
	if _, ok := errors.AsType[*cm.RejectError](err); ok {
		err = syscall.ECONNREFUSED
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err.Error()
	}
	// Go's texts are those of the C library with a small letter at the front,
	// unless a name begins them.
	text := errno.Error()
	if strings.HasPrefix(text, "errno ") { // of the kernel's own, such as ENOTSUPP
		return fmt.Sprintf("Unknown error %d", int(errno))
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
