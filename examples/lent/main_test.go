// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

// TestRun runs the example in the micro-VM.
func TestRun(t *testing.T) {
	vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const want = "the server has written 67108864 bytes\n"
	var out strings.Builder
	if err := run(ctx, &out); err != nil || out.String() != want {
		t.Errorf("run() = %v with output %q, want %q", err, out.String(), want)
	}
}
