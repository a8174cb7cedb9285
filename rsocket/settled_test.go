// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rsocket

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/internal/streamconn"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestSettledNow checks when Close stops waiting. A peer that has closed both directions may not yet have all
// bytes that were posted before.
func TestSettledNow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*link)
		want   bool
	}{
		"nothing was sent":                     {func(*link) {}, false},
		"the end is not acknowledged":          {func(l *link) { l.send.finPosted = finDisconnect; l.ctrlFree-- }, false},
		"the end is acknowledged":              {func(l *link) { l.send.finPosted = finDisconnect }, true},
		"the peer has closed":                  {func(l *link) { l.peerGone = true }, true},
		"the peer has closed, bytes in flight": {func(l *link) { l.peerGone, l.send.posted = true, 1 }, false},
		"the connection has failed":            {func(l *link) { l.err, l.send.posted = syscall.ECONNRESET, 1 }, true},
		"a request has failed":                 {func(l *link) { l.flushed, l.send.posted = true, 1 }, true},
	} {
		l := &link{ctrlFree: ctrlSlots}
		c.change(l)
		if got := l.settledNow(); got != c.want {
			t.Errorf("%s: settledNow() = %v, want %v", name, got, c.want)
		}
	}
}

// TestViewAfterFailure checks that a Read waits for the messages that arrived before a failed send.
func TestViewAfterFailure(t *testing.T) {
	l := &link{err: syscall.ECONNRESET, flushed: true}
	l.recv.init(make([]byte, 16), 4)
	view := func(want int, wantErr error) {
		t.Helper()
		if got, err := l.View(); len(got) != want || err != wantErr {
			t.Errorf("View() = %d bytes, %v, want %d, %v", len(got), err, want, wantErr)
		}
	}
	view(0, nil)
	if err := l.recv.arrived(5); err != nil {
		t.Fatalf("arrived(5): %v", err)
	}
	l.recv.ended = true
	view(5, nil)
	l.Release(5)
	view(0, syscall.ECONNRESET)
	l.recv.eof = true
	view(0, io.EOF)
}

// TestLateCompletions handles a message after the link has ended. Its buffers may then have been freed.
func TestLateCompletions(t *testing.T) {
	host := &verbs.Host{Drivers: verbs.DefaultHost().Drivers, Kernel: uverbstest.New("rxe0")}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	defer dev.Close()
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatalf("Device.CreateCQ: %v", err)
	}
	defer cq.Close()
	l := &link{iwarp: true, log: inflight.NewLog(cq)}
	l.stream = streamconn.New(l)
	l.handle(nil, net.ErrClosed)
	l.handle([]verbs.WC{{ID: kindRecv, ByteLen: messageLen}}, nil)
	if _, err := l.View(); err != net.ErrClosed {
		t.Errorf("View() = %v, want %v", err, net.ErrClosed)
	}
}

// TestProbeTimeout checks the error of a connection whose peer does not acknowledge a probe.
func TestProbeTimeout(t *testing.T) {
	k := keepalive{period: time.Second, probing: time.Now().Add(-minAnswer)}
	err := k.overdue()
	oe := net.OpError{Op: "read", Err: err}
	if !oe.Timeout() || !errors.Is(err, syscall.ETIMEDOUT) || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("overdue() = %v, want a timeout with %v and %v", err, syscall.ETIMEDOUT, syscall.ECONNRESET)
	}
}
