// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// TestRun runs the program in the micro-VM.
func TestRun(t *testing.T) {
	vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const want = "1000 PUTs of one client: <nil>\nGETs of another client: no mixture of two values\n"
	var out strings.Builder
	if err := run(ctx, &out); err != nil || out.String() != want {
		t.Errorf("run() = %v with output:\n%s\nwant:\n%s", err, out.String(), want)
	}
}
