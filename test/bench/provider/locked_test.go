// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"errors"
	"testing"

	"purerdma/internal/longtest"
)

// receives lists subjects that post receives. Only this test has them.
var receives = []subject{
	{name: "PostRecv", args: []string{"recv", "locked"}, post: same("main.measureRecv")},
	{name: "PostRecv, Unlocked", args: []string{"recv", "unlocked"}, post: same("main.measureRecv")},
}

// TestLockedPerCall counts the locked instructions of a call. It must have one, for its lock, regardless of the
// number of requests. An unlocked QP must have none.
func TestLockedPerCall(t *testing.T) {
	longtest.Need(t)
	bin := buildOurs(t)
	want := map[string]int{rowPost: 1, rowUnlocked: 0, rowBatch: 1, rowBuilder: 1, rowBuilder1: 0, "PostRecv": 1, "PostRecv, Unlocked": 0}
	for _, s := range append(receives, subjects...) {
		n, ok := want[s.name]
		if !ok {
			continue
		}
		delete(want, s.name)
		kinds := []string{"write", "inline", "poll"}
		if s.poll == "" {
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			for _, batch := range []int{1, 4} {
				c, err := countSteps(bin, &s, kind, batch)
				if errors.Is(err, errNoPtrace) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatalf("countSteps(%s, %s, %d): %v", s.name, kind, batch, err)
				}
				if c.locked != n || c.instructions == 0 {
					t.Errorf("locked instructions of %s, %s, batch %d = %d of %d, want %d", s.name, kind, batch, c.locked, c.instructions, n)
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no subjects have the names %v", want)
	}
}

func TestLocked(t *testing.T) {
	for _, c := range []struct {
		name string
		code []byte
		want bool
	}{
		{"LOCK CMPXCHGL R8, 0x28(DX)", []byte{0xf0, 0x44, 0x0f, 0xb1, 0x42, 0x28}, true},
		{"XCHGL AX, 0(DX)", []byte{0x87, 0x02}, true},
		{"XCHGQ AX, 0(DX)", []byte{0x48, 0x87, 0x02}, true},
		{"XCHGW AX, 0(DX)", []byte{0x66, 0x87, 0x02}, true},
		{"XCHGB AL, 0(DX)", []byte{0x86, 0x02}, true},
		{"XCHGQ AX, DX", []byte{0x48, 0x87, 0xc2}, false},
		{"CMPXCHGL without LOCK", []byte{0x0f, 0xb1, 0x42, 0x28}, false},
		{"SFENCE, and a LOCK behind it", []byte{0x0f, 0xae, 0xf8, 0xf0}, false},
		{"MOVL $0xf0f0f0f0, 0(DX)", []byte{0xc7, 0x02, 0xf0, 0xf0, 0xf0, 0xf0}, false},
	} {
		if got := locked(c.code); got != c.want {
			t.Errorf("locked(%s) = %v, want %v", c.name, got, !got)
		}
	}
}
