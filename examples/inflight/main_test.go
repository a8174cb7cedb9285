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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	// The sum of 4096 * i for each block i.
	const want = "tokens: 8257536\nfunctions: 8257536\ngoroutines: 8257536\n"
	var out strings.Builder
	if err := run(ctx, &out); err != nil || out.String() != want {
		t.Errorf("run() = %v with output %q, want %q", err, out.String(), want)
	}
}
