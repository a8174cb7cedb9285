// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"purerdma/cmd/internal/tool/tooltest"
)

// TestServeOutOfDescriptors checks that Serve continues while the process is out of descriptors or memory.
func TestServeOutOfDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &tooltest.FailingListener{Errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.EPERM}}
		if err := Serve(t.Context(), ln, nil); !errors.Is(err, syscall.EPERM) || len(ln.Errs) > 0 {
			t.Errorf("Serve() = %v with %d errors left, want %v and 0", err, len(ln.Errs), syscall.EPERM)
		}
	})
}
