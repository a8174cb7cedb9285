// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNextLooksAgain: who is woken looks before he reads, and if he then stops, leaves the
// event to the next one.
func TestNextLooksAgain(t *testing.T) {
	c := &CompChannel{dev: eventFD(t)} // whose count is read as a user handle
	c.try = c.read
	fire := func(handle byte) {
		t.Helper()
		if err := c.dev.Control(func(fd uintptr) { unix.Write(int(fd), []byte{handle, 0, 0, 0, 0, 0, 0, 0}) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name     string
		verdicts []Verdict
		stops    bool
	}{
		{"parked, found it", []Verdict{Park, Stop}, true},
		{"read first, found it", []Verdict{ReadFirst, Stop}, true},
		{"parked, found nothing", []Verdict{Park, ReadFirst}, false},
	} {
		looks := 0
		handle, ok, err := c.Next(func() Verdict {
			looks++
			if looks == 1 {
				time.AfterFunc(10*time.Millisecond, func() { fire(7) })
			}
			if looks > len(tc.verdicts) {
				t.Fatalf("%s: looked %d times", tc.name, looks)
			}
			return tc.verdicts[looks-1]
		})
		if err != nil || ok == tc.stops || ok && handle != 7 || looks != len(tc.verdicts) {
			t.Errorf("%s: handle %d, %v, %v after %d looks", tc.name, handle, ok, err, looks)
		}
		if !tc.stops {
			continue
		}
		if handle, ok, err := c.Next(nil); handle != 7 || !ok || err != nil {
			t.Errorf("%s: the event that was left: %d, %v, %v", tc.name, handle, ok, err)
		}
	}
}
