// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"purerdma/cmd/internal/tool"
	"purerdma/cmd/internal/tool/tooltest"
)

// TestServeOutOfDescriptors checks that the server prints the errors of a process without descriptors
// or memory and continues, and that other errors end it.
func TestServeOutOfDescriptors(t *testing.T) {
	for _, errs := range [][]error{
		{syscall.EMFILE, net.ErrClosed},
		{syscall.ENFILE, syscall.EMFILE, syscall.ENODEV},
		{syscall.EPERM},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln := &tooltest.FailingListener{Errs: slices.Clone(errs)}
			var stderr strings.Builder
			err := serveOn(t.Context(), tool.NewUI("rcopy", io.Discard, &stderr), ln)
			if want := errs[len(errs)-1]; !errors.Is(err, want) || len(ln.Errs) > 0 {
				t.Errorf("serveOn() = %v with %d errors left of %v, want %v", err, len(ln.Errs), errs, want)
			}
			if got := strings.Count(stderr.String(), "too many open files"); got != len(errs)-1 {
				t.Errorf("serveOn() printed %q, want %d errors", stderr.String(), len(errs)-1)
			}
		})
	}
}
