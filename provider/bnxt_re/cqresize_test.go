// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
)

// TestResize changes the size of a CQ while it has completions. None may be lost, and the counts must be right.
func TestResize(t *testing.T) {
	for _, chip := range []string{"P4", "P7"} {
		r := newRig(t, chips[chip])
		e := r.connected(t, provider.QPCap{SendWR: 200})
		next, sent := uint64(0), 0
		send := func(n int) {
			for range n {
				e.send(uint64(sent))
				sent++
				e.dev.sendDone(0, sent%e.dev.entries)
			}
		}
		for i, n := range []int{100, 300, 60, 1000, 65535, 70, 70} {
			depth := e.c.depth
			send(50)
			for _, w := range e.poll(20) {
				if w.ID != next {
					t.Fatalf("completion = %+v, want ID %d", w, next)
				}
				next++
			}
			if err := e.c.Resize(n); err != nil {
				t.Fatalf("%s: CQ.Resize(%d): %v", chip, n, err)
			}
			if e.c.Entries() < n || int(e.c.depth)*cqeSize != len(e.dev.sendCQ.ring) {
				t.Errorf("%s: Entries of a CQ of %d = %d, and %d in the ring, want as in the device (%d)", chip, n, e.c.Entries(), e.c.depth, len(e.dev.sendCQ.ring)/cqeSize)
			}
			if e.dev.sendCQ.ended != (e.c.depth != depth) {
				t.Errorf("%s: change %d: the kernel was told about the end of the old ring = %v, want %v", chip, i, e.dev.sendCQ.ended, e.c.depth != depth)
			}
			e.dev.sendCQ.ended = false
			if e.c.Counts().Completions[0] != next {
				t.Errorf("%s: counted completions = %d, want %d", chip, e.c.Counts().Completions[0], next)
			}
			if got := e.c.Counts().Received; got != (provider.Count{}) {
				t.Errorf("%s: counted receives = %+v, want none", chip, got)
			}
			send(5)
			for next < uint64(sent) {
				got := e.poll(7)
				if len(got) == 0 || got[0].ID != next {
					t.Fatalf("%s: completions = %+v, want ID %d", chip, got, next)
				}
				next += uint64(len(got))
			}
		}
	}
}

// TestArmDuringResize arms a CQ while the adapter has ended the old ring and the process has not. The CQ is armed again on
// the new ring.
func TestArmDuringResize(t *testing.T) {
	for _, solicited := range []bool{false, true} {
		r := newRig(t, chips["P7"])
		e := r.connected(t, provider.QPCap{SendWR: 8})
		e.send(1)
		e.dev.sendDone(0, 1)
		if got := e.poll(2); !slices.Equal(ids(got), []uint64{1}) {
			t.Fatalf("completed IDs = %v, want 1", ids(got))
		}
		r.onResize = func(c *deviceCQ) {
			c.cutOff()
			for _, only := range []bool{solicited, true} { // a request for all completions remains
				if err := e.c.Arm(only); err != nil {
					t.Errorf("CQ.Arm during Resize: %v", err)
				}
			}
		}
		if err := e.c.Resize(1000); err != nil {
			t.Fatalf("CQ.Resize: %v", err)
		}
		want := bell(bellArmAll, e.c.num)
		if solicited {
			want = bell(bellArmSolicited, e.c.num)
		}
		want |= e.c.toggle.bits() | e.c.epoch
		if got := endian.Little64(e.c.bell.last); got != want {
			t.Errorf("last doorbell after Resize = %#x, want %#x", got, want)
		}
		r.onResize = nil
		if err := e.c.Resize(100); err != nil {
			t.Fatalf("CQ.Resize: %v", err)
		}
		if got := endian.Little64(e.c.bell.last); got>>60 != bellCutoff {
			t.Errorf("last doorbell after a Resize without Arm = %#x, want the end of the ring", got)
		}
	}
}

// TestResizeRefused has the kernel refuse a change of the size. The CQ keeps its ring.
func TestResizeRefused(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{SendWR: 8})
	r.fail[[2]uint64{0, abi.IB_USER_VERBS_CMD_RESIZE_CQ}] = syscall.EINVAL
	if err := e.c.Resize(1000); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CQ.Resize = %v, want EINVAL", err)
	}
	e.send(1)
	e.dev.sendDone(0, 1)
	if got := e.poll(2); !slices.Equal(ids(got), []uint64{1}) {
		t.Errorf("completed IDs = %v, want 1", ids(got))
	}
}

// TestResizeLate has the device end the old ring after the wait of Resize. The next call moves to the new ring.
func TestResizeLate(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{SendWR: 8})
	e.send(1, 2)
	r.onResize = func(c *deviceCQ) { e.dev.sendDone(0, 1) }
	begin := time.Now()
	if err := e.c.Resize(1000); !errors.Is(err, syscall.EIO) || time.Since(begin) < resizeWait {
		t.Fatalf("CQ.Resize = %v after %v, want EIO after %v", err, time.Since(begin), resizeWait)
	}
	r.onResize = nil
	e.dev.sendCQ.cutOff()
	e.dev.sendDone(0, 2)
	if got := e.poll(9); !slices.Equal(ids(got), []uint64{1}) {
		t.Errorf("completed IDs before the end of the change = %v, want 1", ids(got))
	}
	if err := e.c.Resize(2000); err != nil {
		t.Fatalf("CQ.Resize: %v", err)
	}
	if got := e.poll(9); !slices.Equal(ids(got), []uint64{2}) {
		t.Errorf("completed IDs = %v, want 2", ids(got))
	}
}

// TestResizeOfAClosedCQ changes the size of a closed CQ, and of a CQ whose file is closed during the change.
func TestResizeOfAClosedCQ(t *testing.T) {
	r := newRig(t, chips["P7"])
	c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 5})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	other, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 5})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatalf("CQ.Close: %v", err)
	}
	if err := c.Resize(100); err == nil {
		t.Error("Resize of a closed CQ succeeded, want net.ErrClosed")
	}
	r.onResize = func(*deviceCQ) { go r.f.Close() }
	if err := other.Resize(100); err == nil {
		t.Error("Resize during Close of the file succeeded, want net.ErrClosed")
	}
	if err := other.Close(); err != nil {
		t.Errorf("CQ.Close: %v", err)
	}
}
