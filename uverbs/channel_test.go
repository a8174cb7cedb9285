// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"errors"
	"net"
	"runtime"
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

// TestCloseBesideReader closes a file while the reader of an event file looks into a queue, and
// needs a lock of which the holder maps memory of the file: none waits for another one in turn.
func TestCloseBesideReader(t *testing.T) {
	f := &File{t: closable{}, channels: map[eventChannel]struct{}{}}
	c := &CompChannel{f: f, dev: eventFD(t)}
	c.try = c.read
	if err := f.adopt(c); err != nil {
		t.Fatal(err)
	}
	looks, mapped, read := make(chan struct{}), make(chan error), make(chan error, 1)
	go func() {
		_, _, err := c.Next(func() Verdict {
			close(looks)
			<-mapped // as the lock of a queue that is being resized
			return Stop
		})
		read <- err
	}()
	<-looks
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	for !f.Closed() {
		runtime.Gosched()
	}
	go func() {
		_, err := f.Mmap(0, 1)
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Mmap of a closed file: %v", err)
		}
		close(mapped)
	}()
	for what, done := range map[string]chan error{"Close": closed, "Next": read} {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s hangs", what)
		}
	}
}

// closable is a device that can be closed, and does nothing else.
type closable struct{ Transport }

func (closable) Close() error { return nil }
