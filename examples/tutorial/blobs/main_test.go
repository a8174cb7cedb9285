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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const want = `put photo: <nil>
get photo: 5000000 bytes, equal: true, <nil>
list: 101 keys, <nil>
first key: note 00
list ended early: <nil>
delete photo: <nil>
get photo: the peer reports: no such key
timeout: true
size of note 99: 6, <nil>
`
	var out strings.Builder
	if err := run(ctx, &out); err != nil || out.String() != want {
		t.Errorf("run() = %v with output:\n%s\nwant:\n%s", err, out.String(), want)
	}
}
