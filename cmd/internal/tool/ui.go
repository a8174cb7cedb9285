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
	"purerdma/cmd/internal/addrinfo"
)

// UI is the output of a program. Each call writes once, so that the lines of several goroutines
// do not mix.
type UI struct {
	Name string // name of the program
	Path string // name as invoked, printed with usage and bad flags
	Out  io.Writer
	Err  io.Writer

	mu     sync.Mutex
	failed error // the first failure to write to Out
}

// NewUI returns the UI of the running program.
func NewUI(name string, stdout, stderr io.Writer) *UI {
	return &UI{Name: name, Path: os.Args[0], Out: stdout, Err: stderr}
}

// Printf prints to standard output. A write error, such as a full disk, is kept for Failure.
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

// Perror prints the message of perror(3), which is the failed operation and the C library's text for the
// cause. A second line contains the whole err.
func (u *UI) Perror(what string, err error) {
	u.Errorf("%s: %s\n%s: %v\n", what, Strerror(err), u.Name, err)
}

// Fail prints an error for which the C program has no message.
func (u *UI) Fail(err error) { u.Errorf("%s: %v\n", u.Name, err) }

// FailLookup reports a failed look-up of an address. It prints the message of gai_strerror(3) on standard
// output, behind what, and then err.
func (u *UI) FailLookup(what string, err error) {
	if _, ok := errors.AsType[addrinfo.EAI](err); ok {
		u.Printf("%s: %s\n", what, addrinfo.Strerror(err))
	}
	u.Fail(err)
}

// Failure returns the first write error of standard output.
func (u *UI) Failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// Usage reports a bad command line. It prints the reason, and the C program's usage on standard
// output.
func (u *UI) Usage(err error, usage string) {
	u.Errorf("%s: %v\n", u.Path, err)
	u.Printf("usage: %s\n%s", u.Path, usage)
}

// Strerror returns the text of strerror(3) for the errno in err, or err's own text without an
// errno. A rejection has librdmacm's errno.
func Strerror(err error) string {
	if _, ok := errors.AsType[*cm.RejectError](err); ok {
		err = syscall.ECONNREFUSED
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err.Error()
	}
	// Go's texts equal the C library's except for the first letter, which is a small letter
	// unless a name begins the text.
	text := errno.Error()
	if strings.HasPrefix(text, "errno ") { // an errno that only the kernel defines, such as ENOTSUPP
		return fmt.Sprintf("Unknown error %d", int(errno))
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
