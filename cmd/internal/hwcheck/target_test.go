// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
)

// failingListener is a listener whose Accept returns errors in turn.
type failingListener struct {
	net.Listener
	errs []error
}

// Accept implements net.Listener.
func (ln *failingListener) Accept() (net.Conn, error) {
	err := ln.errs[0]
	ln.errs = ln.errs[1:]
	return nil, &net.OpError{Op: "accept", Err: err}
}

// Close implements net.Listener.
func (ln *failingListener) Close() error { return nil }

// TestServeOutOfDescriptors checks that Serve continues while the process is out of descriptors or memory.
func TestServeOutOfDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &failingListener{errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.EPERM}}
		if err := Serve(t.Context(), ln, nil); !errors.Is(err, syscall.EPERM) || len(ln.errs) > 0 {
			t.Errorf("Serve() = %v with %d errors left, want %v and 0", err, len(ln.errs), syscall.EPERM)
		}
	})
}
