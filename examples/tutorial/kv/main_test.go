// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

// TestRun runs the program in the micro-VM.
func TestRun(t *testing.T) {
	vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const want = "PUT color: <nil>\n" +
		"GET color: \"blue\", <nil>\nDELETE color: <nil>\n" +
		"GET color: \"\", no such key\nDELETE color: no such key\n"
	var out strings.Builder
	if err := run(ctx, &out); err != nil || out.String() != want {
		t.Errorf("run() = %v with output %q, want %q", err, out.String(), want)
	}
}

// TestBench runs the program's measurement for a moment.
func TestBench(t *testing.T) {
	vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	*goroutines, *duration = 100, 200*time.Millisecond
	defer func() { *goroutines = 0 }()
	var out strings.Builder
	if err := run(ctx, &out); err != nil || !strings.HasPrefix(out.String(), "goroutines: 100, GETs per second: ") {
		t.Errorf("run() = %v with output %q, want a rate", err, out.String())
	}
}
