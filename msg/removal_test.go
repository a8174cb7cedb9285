// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
	"purerdma/verbs"
)

// blocked has the results of calls that wait on one side of a connection.
type blocked struct {
	t    *testing.T
	conn *msg.Conn
	all  sync.WaitGroup

	mu   sync.Mutex
	errs map[string]error // of each call
	// held has the received messages.
	held []*msg.Message
	loan *msg.Loan
}

// start runs a call on a goroutine. A call that has waited for the peer fails only after the end of the connection. A
// transfer, or a Do that registers its memory after the removal, may fail before.
func (b *blocked) start(name string, call func() error) {
	b.all.Go(func() {
		err := call()
		if b.conn.Err() == nil && !strings.HasPrefix(name, "transfer") && !strings.HasPrefix(name, "Do") {
			b.t.Errorf("Err() after %s has failed with %v = nil, want the reason", name, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errs[name] = err
	})
}

// block makes calls on a connection with a window of 6 messages. They wait as soon as the peer does the same. If
// transfers is set, this side reads and writes the memory that the peer lends all the time.
func block(t *testing.T, ctx context.Context, c *msg.Conn, transfers bool) *blocked {
	b := &blocked{t: t, conn: c, errs: map[string]error{}}
	mr := windowMR(t, c, 2000)
	loan, err := c.Lend(ctx, msg.Memory{Bytes: mr.Bytes()[:1000], MR: mr}, verbs.RemoteRead)
	if err != nil {
		t.Fatalf("Lend() = %v", err)
	}
	b.loan = loan
	b.start("Receive", func() error { return b.receive(ctx, transfers) })
	b.start("Call", func() error { return second(c.Call(ctx, 0, nil)) })
	for name, mem := range map[string]msg.Memory{"Do": {Bytes: make([]byte, 1000)}, "Do with an MR": {Bytes: mr.Bytes()[1000:], MR: mr}} {
		b.start(name, func() error { return second(c.Do(ctx, &msg.Request{Read: mem, Write: mem})) })
	}
	b.start("Stream", func() error {
		r, err := c.Stream(ctx, &msg.Request{Parts: 1})
		if err != nil {
			return err
		}
		defer r.Close()
		m, err := r.Next(ctx)
		if err != nil {
			return err
		}
		defer m.Free() // without it the peer has no room for the next part
		return second(r.Next(ctx))
	})
	b.start("Send", func() error {
		for {
			if err := c.Send(ctx, 0, nil); err != nil {
				return err
			}
		}
	})
	return b
}

// receive takes all messages and keeps them. It answers streams with parts.
func (b *blocked) receive(ctx context.Context, transfers bool) error {
	for i := 0; ; i++ {
		m, err := b.conn.Receive(ctx)
		if err != nil {
			return err
		}
		b.held = append(b.held, m)
		read, _ := m.Lent()
		switch {
		case m.MaxParts() > 0:
			b.start("ReplyPart", func() error {
				for {
					if err := m.ReplyPart(ctx, 0, nil); err != nil {
						return err
					}
				}
			})
		case read.Length > 0 && transfers:
			b.start(fmt.Sprint("transfer ", i), func() error { return transferAlways(ctx, b.conn, m) })
		}
	}
}

// transferAlways reads and writes lent memory until an error.
func transferAlways(ctx context.Context, c *msg.Conn, m *msg.Message) error {
	buf, err := c.Pool().Get(ctx, 1000)
	if err != nil {
		return err
	}
	defer buf.Free()
	for {
		if err := errors.Join(m.ReadLent(ctx, buf.SGE(), 0), m.WriteLent(ctx, buf.SGE(), 0)); err != nil {
			return err
		}
	}
}

// waits waits until the calls of a connection wait for each other.
func waits(t *testing.T, ctx context.Context, conns ...*msg.Conn) {
	t.Helper()
	for last, now := []uint32(nil), []uint32(nil); ; last = now {
		now = nil
		for _, c := range conns {
			now = append(now, c.Frames())
		}
		if fmt.Sprint(last) == fmt.Sprint(now) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("Frames() = %v, want no more frames", now)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestRemoval removes the device of one side while all kinds of calls wait on both sides, with and without
// transfers of lent memory. Each call returns, and everything can be closed.
func TestRemoval(t *testing.T) {
	for side, name := range []string{"dialing", "accepting"} {
		for _, transfers := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s side, transfers %v", name, transfers), func(t *testing.T) {
				streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) { removal(t, k, side, transfers) })
			})
		}
	}
}

func removal(t *testing.T, k *cmtest.Kernel, side int, transfers bool) {
	opts := msg.Options{Window: 6}
	ln := listen(t, k, opts)
	c, s := apart(t, k, ln, opts)
	ctx := streamconntest.Deadline(t)
	both := []*blocked{block(t, ctx, c, transfers), block(t, ctx, s, transfers)}
	accepted := make(chan error, 1)
	acceptCtx, stopAccept := context.WithCancel(ctx)
	defer stopAccept()
	go func() { accepted <- second(ln.Accept(acceptCtx)) }()
	waits(t, ctx, c, s)
	remove(t, k, side)
	for i, b := range both {
		b.all.Wait()
		for name, err := range b.errs {
			switch _, removed := errors.AsType[*verbs.DeviceRemovedError](err); {
			case i == side && !removed:
				t.Errorf("%s on the removed device = %v, want a *verbs.DeviceRemovedError", name, err)
			case i != side && name == "Receive" && !transfers && err != io.EOF:
				t.Errorf("%s of the peer = %v, want %v", name, err, io.EOF)
			case i != side && !lostPeer(err):
				t.Errorf("%s of the peer = %v, want %v, %v or a *cm.BrokenError", name, err, syscall.ECONNRESET, verbs.WCRetryExcErr)
			}
		}
		for _, m := range b.held {
			m.Free()
		}
		if err := b.loan.Close(); err != nil {
			t.Errorf("Loan.Close() after the removal = %v", err)
		}
	}
	if side == 0 {
		stopAccept()
		if err := <-accepted; !errors.Is(err, context.Canceled) {
			t.Errorf("Accept() after the removal of the other device = %v, want %v", err, context.Canceled)
		}
		return
	}
	for range 2 {
		if _, ok := errors.AsType[*verbs.DeviceRemovedError](<-accepted); !ok {
			t.Errorf("Accept() on the removed device = no *verbs.DeviceRemovedError, want one")
		}
		accepted <- second(ln.Accept(ctx)) // after the removal
	}
	if err := ln.Close(); err != nil {
		t.Errorf("Listener.Close() after the removal = %v", err)
	}
}

// lostPeer reports whether err is an error of a side whose peer has lost its device. A transfer fails when no
// device answers. Other calls fail with it, or find the end of the connection.
func lostPeer(err error) bool {
	wc, ok := errors.AsType[*verbs.WCError](err)
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET) || isBroken(err) || ok && wc.Status == verbs.WCRetryExcErr
}

// remove removes the device of the dialing (0) or the accepting side (1).
func remove(t *testing.T, k *cmtest.Kernel, side int) {
	t.Helper()
	devices, err := k.Devices()
	if err != nil {
		t.Fatalf("Devices() = %v", err)
	}
	if name := devices[1-side].Name; !k.Remove(name) {
		t.Fatalf("Remove(%q) = false, want true", name)
	}
}
