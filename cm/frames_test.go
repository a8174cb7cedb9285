// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"runtime"
	"strings"
	"testing"

	"purerdma/ucma"
)

// frameDevice records the stack frames between a function of this package and the write of a
// command.
type frameDevice struct {
	ucma.Device
	from   string // end of the function's name
	frames []string
}

func (d *frameDevice) Write(b []byte) error {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	var names []string
	for {
		f, more := frames.Next()
		names = append(names, f.Function)
		if strings.HasSuffix(f.Function, d.from) {
			d.frames = names
			break
		}
		if !more {
			break
		}
	}
	return d.Device.Write(b)
}

// maxFrames bounds the stack frames of a call from the method of the ID to the device's write,
// including both.
const maxFrames = 10

// TestFrames counts the stack frames of commands, so that the path to the kernel stays short.
func TestFrames(t *testing.T) {
	for _, tc := range []struct {
		from string
		call func(*ID) error
	}{
		{"(*ID).Connect", func(id *ID) error { return id.Connect(&ConnParam{QPNum: 1}) }},
		{"(*ID).Listen", func(id *ID) error { return id.Listen(0) }},
		{"(*ID).ResolveRoute", func(id *ID) error { return id.ResolveRoute(1e9) }},
		{"(*ID).Reject", func(id *ID) error { return id.Reject(nil) }},
		{"(*ID).Disconnect", func(id *ID) error { return id.Disconnect() }},
	} {
		k := newFakeKernel()
		d := &frameDevice{Device: k, from: tc.from}
		ch := newEventChannel(ucma.New(d), fakeHost())
		t.Cleanup(func() { ch.Close() })
		id := newFakeID(t, ch)
		dev, err := fakeHost().Open("rxe0")
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		id.dev = dev
		_ = tc.call(id) // the kernel's result does not matter
		if n := len(d.frames); n == 0 || n > maxFrames {
			t.Errorf("%s: %d frames to the kernel, want 1 to %d:\n%s", tc.from, n, maxFrames, strings.Join(d.frames, "\n"))
		} else {
			t.Logf("%s: %d frames", tc.from, n)
		}
	}
}
