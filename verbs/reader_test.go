// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"purerdma/internal/cdev"
	"purerdma/provider"
)

// scriptCQ is a CQ whose polls and arms a test scripts.
type scriptCQ struct {
	provider.CQ
	polls []func() int // the actions and the results of the polls, in order
	poll  int          // the number of polls
	arm   func()
	arms  int
}

func (c *scriptCQ) Poll([]provider.WC) (int, error) {
	c.poll++
	return c.polls[c.poll-1](), nil
}

func (c *scriptCQ) Arm(bool) error {
	c.arms++
	if c.arm != nil {
		c.arm()
	}
	return nil
}

// newScript returns a CQ with a script, on its own channel. fire writes an event of a user
// handle, of which the reader gets size bytes.
func newScript(t *testing.T, p *scriptCQ) (cq *CQ, fire func(handle uint64, size int)) {
	t.Helper()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_DIRECT); err != nil { // a read returns one event
		t.Fatalf("unix.Pipe2: %v", err)
	}
	file, err := cdev.New(pipe[0], "pipe")
	if err != nil {
		t.Fatalf("cdev.New: %v", err)
	}
	t.Cleanup(func() { file.Close(); unix.Close(pipe[1]) })
	dev := new(deviceContext)
	ch := &CompChannel{
		dev: dev, turn: make(chan struct{}, 1), file: file, conn: file.Conn(), interrupt: file.Interrupt,
		added: map[*CQ]struct{}{},
	}
	ch.reader.read = ch.read
	cq = &CQ{dev: dev, p: p, ch: ch, done: make(chan struct{}), notify: make(chan struct{}, 1)}
	cq.handle = dev.objects.add(cq)
	return cq, func(handle uint64, size int) {
		if _, err := unix.Write(pipe[1], []byte{byte(handle), 0, 0, 0, 0, 0, 0, 0}[:size]); err != nil {
			t.Errorf("unix.Write: %v", err)
		}
	}
}

func nothing() int { return 0 }
func found() int   { return 1 }

// unread reads the unread events of the channel and returns their number.
func unread(t *testing.T, ch *CompChannel) (n int) {
	t.Helper()
	err := ch.file.(*cdev.File).Control(func(fd uintptr) {
		for {
			if _, err := cdev.ReadRaw(fd, make([]byte, 8)); err != nil {
				return
			}
			n++
		}
	})
	if err != nil {
		t.Fatalf("File.Control: %v", err)
	}
	return n
}

// TestWaitLeavesEventUnread checks that a reader polls after a wake-up, before it reads the
// event. If it finds its completion, the event stays unread and the CQ armed. The next wait
// reads the event once it has found the queue empty.
func TestWaitLeavesEventUnread(t *testing.T) {
	p := new(scriptCQ)
	cq, fire := newScript(t, p)
	fireFirst := func() int { fire(cq.handle, 8); return 0 }
	wait := func() {
		t.Helper()
		if n, err := cq.Wait(t.Context(), make([]WC, 1)); n != 1 || err != nil {
			t.Fatalf("Wait = %d, %v, want 1, nil", n, err)
		}
	}
	p.polls = []func() int{nothing, fireFirst, found}
	wait()
	if p.arms != 1 || p.poll != 3 || !cq.armed {
		t.Errorf("after the first Wait: %d arms, %d polls, armed %v, want 1, 3, true", p.arms, p.poll, cq.armed)
	}
	// Wait finds nothing, becomes the reader, reads the old event, and polls.
	p.polls, p.poll = []func() int{nothing, nothing, found}, 0
	wait()
	if p.arms != 1 || p.poll != 3 || cq.armed {
		t.Errorf("after the second Wait: %d arms, %d polls, armed %v, want 1, 3, false", p.arms, p.poll, cq.armed)
	}
	if n := unread(t, cq.ch); n != 0 || cq.ch.arms.Load() != 0 {
		t.Errorf("%d events are unread, %d arms are counted, want none", n, cq.ch.arms.Load())
	}
}

// TestCutOffEvent checks a truncated event, which may belong to any armed CQ. The CQ is armed
// again.
func TestCutOffEvent(t *testing.T) {
	p := new(scriptCQ)
	cq, fire := newScript(t, p)
	p.arm = func() { fire(cq.handle, map[int]int{1: 3, 2: 8}[p.arms]) }
	p.polls = []func() int{nothing, nothing, nothing, nothing, found}
	if n, err := cq.Wait(t.Context(), make([]WC, 1)); n != 1 || err != nil || p.arms != 2 {
		t.Errorf("Wait = %d, %v after %d arms, want 1, nil after 2 arms", n, err, p.arms)
	}
	unread(t, cq.ch)

	// Next returns the CQ that the event may belong to.
	p.arms = 0
	if err := cq.Arm(false); err != nil { // causes the event that is truncated
		t.Fatalf("CQ.Arm(false): %v", err)
	}
	if got, err := cq.ch.Next(t.Context()); got != cq || err != nil {
		t.Errorf("Next = %p, %v, want %p, nil", got, err, cq)
	}
}

// TestArmFrames counts the stack frames between a Wait that is about to sleep and the provider.
func TestArmFrames(t *testing.T) {
	const want = 7
	p := new(scriptCQ)
	cq, _ := newScript(t, p)
	var names []string
	p.polls = []func() int{nothing, found}
	p.arm = func() {
		pcs := make([]uintptr, 64)
		frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)]) // from Arm on
		for {
			f, more := frames.Next()
			names = append(names, f.Function)
			if !more || strings.HasSuffix(f.Function, "(*CQ).Wait") {
				return
			}
		}
	}
	if n, err := cq.Wait(t.Context(), make([]WC, 1)); n != 1 || err != nil {
		t.Fatalf("Wait = %d, %v, want 1, nil", n, err)
	}
	if len(names) == 0 || len(names) > want {
		t.Errorf("%d frames, want at most %d:\n%s", len(names), want, strings.Join(names, "\n"))
	}
}
