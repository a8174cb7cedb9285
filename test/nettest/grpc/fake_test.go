// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"testing"

	"purerdma/internal/apptest"
	"purerdma/stream"
)

// TestInterop runs the cases on the fake kernels.
func TestInterop(t *testing.T) { apptest.OnFakes(t, stream.Options{}, runCases) }
