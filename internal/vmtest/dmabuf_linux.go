// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"os"
	"testing"

	"purerdma/internal/udmabuf"
)

// DMABuf returns a dma-buf of size bytes, a multiple of the page size, and a mapping of its
// memory (package udmabuf). Both are closed at the end of the test.
func DMABuf(t testing.TB, size int) (*os.File, []byte) {
	t.Helper()
	b, err := udmabuf.New(size)
	if err != nil {
		t.Fatalf("udmabuf.New: %v", err)
	}
	t.Cleanup(func() { b.Close() })
	return b.File, b.Mem
}
