// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool/tooltest"
)

// TestBackoff checks that the pauses grow while descriptors are exhausted, and that other
// errors cause no pause.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &cm.OpError{Op: "accept", Err: syscall.EMFILE}
		var b Backoff
		for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
			start := time.Now()
			if !b.Wait(t.Context(), full) {
				t.Fatalf("Wait(%v) = false, want true", full)
			}
			if got := time.Since(start); got != want*time.Millisecond {
				t.Errorf("pause %d = %v, want %v ms", i, got, int(want))
			}
		}
		b.Reset()
		start := time.Now()
		b.Wait(t.Context(), &net.OpError{Op: "accept", Err: syscall.EMFILE})
		if got := time.Since(start); got != firstPause {
			t.Errorf("pause after Reset = %v, want %v", got, firstPause)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, tc := range []struct {
			ctx context.Context
			err error
		}{
			{t.Context(), nil},
			{t.Context(), io.EOF},
			{t.Context(), &cm.OpError{Op: "accept", Err: syscall.EACCES}},
			{t.Context(), &cm.OpError{Op: "accept", Err: os.ErrDeadlineExceeded}},
			{ended, full},
		} {
			if b.Wait(tc.ctx, tc.err) {
				t.Errorf("Wait(%v) = true, want false", tc.err)
			}
		}
	})
}

// TestAcceptConn checks that AcceptConn continues after errors of a process without descriptors or
// memory, and reports them. Other errors end it.
func TestAcceptConn(t *testing.T) {
	for _, tc := range []struct {
		errs     []error
		want     error
		reported int
	}{
		{[]error{syscall.ENFILE, syscall.EMFILE, syscall.EPERM}, syscall.EPERM, 2},
		{[]error{syscall.EMFILE, net.ErrClosed}, net.ErrClosed, 1},
		{[]error{syscall.EPERM}, syscall.EPERM, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln, reported := &tooltest.FailingListener{Errs: slices.Clone(tc.errs)}, 0
			_, err := AcceptConn(t.Context(), ln, func(error) { reported++ })
			if !errors.Is(err, tc.want) || len(ln.Errs) > 0 || reported != tc.reported {
				t.Errorf("AcceptConn() of %v = %v with %d left and %d reported, want %v, 0 and %d", tc.errs, err, len(ln.Errs), reported, tc.want, tc.reported)
			}
		})
	}
}
