// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress checks that the line shows progress and rate, is erased for each line of the
// table, and is erased at the end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{out: &out, on: true}
		var n atomic.Uint64
		period := func(messages uint64, want string) {
			t.Helper()
			n.Store(messages)
			time.Sleep(progressPeriod)
			synctest.Wait()
			if got := out.String(); got != want {
				t.Errorf("progress after %d messages = %q, want %q", messages, got, want)
			}
			out.Reset()
		}
		p.start(&n)
		period(0, eraseLine+"0 messages, 0 a second")
		period(1000, eraseLine+"1000 messages, 4000 a second")
		p.clear()
		period(1500, eraseLine+eraseLine+"1500 messages, 2000 a second")
		period(10, eraseLine+"10 messages, 0 a second") // messages of the next size
		p.stop()
		if got := out.String(); got != eraseLine {
			t.Errorf("progress after stop = %q, want %q", got, eraseLine)
		}
	})
}

// TestNoProgress checks that only a terminal gets the line.
func TestNoProgress(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer f.Close()
	var b strings.Builder
	if terminal(f) || terminal(&b) {
		t.Error("terminal(file or buffer) = true, want false")
	}
	p := &progress{out: &b}
	p.start(new(atomic.Uint64))
	p.clear()
	p.stop()
	if b.Len() > 0 {
		t.Errorf("progress without a terminal = %q, want none", b.String())
	}
}
