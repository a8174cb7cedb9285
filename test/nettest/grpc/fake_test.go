// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"testing"

	"purerdma/internal/streamnet"
	"purerdma/stream"
)

// TestInterop runs the cases on the fake kernels.
func TestInterop(t *testing.T) { streamnet.OnFakes(t, stream.Options{}, runCases) }
