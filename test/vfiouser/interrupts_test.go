// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// eventfd returns an eventfd, and a function that returns the number of its signals since the
// previous call.
func eventfd(t *testing.T) (fd int, count func() uint64) {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatalf("unix.Eventfd: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, func() uint64 {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return 0
		}
		return le.Uint64(b[:])
	}
}

func irqBody(flags, index, start, count uint32) []byte {
	return words(uint32(20), flags, index, start, count)
}

func TestInterrupts(t *testing.T) {
	c := newClient(t)
	x := c.server.Interrupts
	const set = irqSetDataEventFD | irqSetTrigger
	a, countA := eventfd(t)
	b, countB := eventfd(t)
	if x.Raise(0) {
		t.Error("Raise of an initial vector = true")
	}
	c.ok(cmdSetIRQs, irqBody(set, msixIndex, 1, 2), a, b)
	if x.Raise(0) || !x.Raise(1) || !x.Raise(1) || !x.Raise(2) || x.Raise(3) || x.Raise(4) || x.Raise(-1) {
		t.Error("Raise = true for other vectors than 1 and 2")
	}
	if countA() != 2 || countB() != 1 {
		t.Error("number of signals differs from number of calls to Raise")
	}
	c.ok(cmdSetIRQs, irqBody(set, msixIndex, 1, 1)) // no eventfd disables it
	c.ok(cmdSetIRQs, irqBody(set, msixIndex, 2, 1), a)
	if x.Raise(1) || !x.Raise(2) || countA() != 1 || countB() != 0 {
		t.Error("Raise signaled vector 1 after its end, or the old file of vector 2")
	}
	c.ok(cmdSetIRQs, irqBody(irqSetDataNone|irqSetTrigger, msixIndex, 0, 0))
	if x.Raise(2) {
		t.Error("Raise after disabling all vectors = true")
	}
}

// TestRaiseDoesNotWait checks that Raise does not block if an eventfd is full or the client has
// sent another kind of file.
func TestRaiseDoesNotWait(t *testing.T) {
	c := newClient(t)
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // blocking mode
	if err != nil {
		t.Fatalf("unix.Eventfd: %v", err)
	}
	defer unix.Close(fd)
	full := words(^uint64(0) - 1)
	unix.Write(fd, full)
	r, w := pipe(t)
	defer unix.Close(r)
	defer unix.Close(w)
	c.ok(cmdSetIRQs, irqBody(irqSetDataEventFD|irqSetTrigger, msixIndex, 0, 2), fd, r)
	done := make(chan bool)
	go func() {
		c.server.Interrupts.Raise(0)
		c.server.Interrupts.Raise(1)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("Raise blocks")
	}
}

func TestInterruptMistakes(t *testing.T) {
	c := newClient(t)
	const set = irqSetDataEventFD | irqSetTrigger
	fd, _ := eventfd(t)
	c.ok(cmdReset, nil) // wait until the server has started
	before := openFiles(t)
	for _, tc := range []struct {
		name string
		body []byte
		fds  []int
		want unix.Errno
	}{
		{"no such kind", irqBody(set, 5, 0, 1), []int{fd}, unix.EINVAL},
		{"a kind without vectors", irqBody(set, 0, 0, 1), []int{fd}, unix.EINVAL},
		{"too many", irqBody(set, msixIndex, 0, 5), []int{fd}, unix.EINVAL},
		{"far too many", irqBody(set, msixIndex, 1, ^uint32(0)), []int{fd}, unix.EINVAL},
		{"behind the last", irqBody(set, msixIndex, 5, 0), nil, unix.EINVAL},
		{"more files than vectors", irqBody(set, msixIndex, 0, 1), []int{fd, fd}, unix.ENOTSUP},
		{"trigger from outside", irqBody(irqSetDataBool|irqSetTrigger, msixIndex, 0, 1), nil, unix.ENOTSUP},
		{"mask", irqBody(irqSetDataNone|irqSetMask, msixIndex, 0, 1), nil, unix.ENOTSUP},
		{"unmask", irqBody(irqSetDataNone|irqSetUnmask, msixIndex, 0, 1), nil, unix.ENOTSUP},
		{"half a body", irqBody(set, msixIndex, 0, 1)[:16], []int{fd}, unix.EINVAL},
	} {
		if _, errno := c.call(cmdSetIRQs, tc.body, tc.fds...); errno != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, errno, tc.want)
		}
	}
	if n := openFiles(t); n != before {
		t.Errorf("%d open file descriptors, want %d", n, before)
	}
	if c.server.Interrupts.Raise(0) {
		t.Error("Raise(0) after rejected commands = true")
	}
}
