// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package main

import (
	"strings"
	"testing"
)

// TestTornReads reads a slot while the server writes it. Each result is a value that was put.
func TestTornReads(t *testing.T) {
	s, ctx := newStore(t), within(t)
	reader, writer := s.dial(ctx, t), s.dial(ctx, t)
	values := []string{strings.Repeat("a", 40), strings.Repeat("b", 30)}
	written := make(chan struct{})
	if err := writer.Put(ctx, "color", values[0]); err != nil {
		t.Fatalf("Put() = %v", err)
	}
	go func() {
		defer close(written)
		for i := range 1000 {
			if err := writer.Put(ctx, "color", values[i%2]); err != nil {
				t.Errorf("Put() = %v", err)
				return
			}
		}
	}()
	for n := 0; ; n++ {
		if got, err := reader.Get(ctx, "color"); err != nil || got != values[0] && got != values[1] {
			t.Errorf("Get() = %q, %v, want a value that was put", got, err)
			break
		}
		select {
		case <-written:
			t.Logf("%d GETs", n)
			return
		default:
		}
	}
	<-written
}
