// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"testing"

	"purerdma/internal/apptest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestVMInterop runs the cases between two devices.
func TestVMInterop(t *testing.T) {
	vmtest.Need(t)
	runCases(t, apptest.InVM(stream.Options{}))
}
