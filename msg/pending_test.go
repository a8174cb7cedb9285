// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// network is a fake kernel with two devices of mlx5, whose packets a test can stop.
type network struct {
	*cmtest.Kernel
	// stopped has the name of the device whose packets do not arrive.
	stopped atomic.Value
}

func newNetwork(t *testing.T) *network {
	devices := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "mlx5_0", "mlx5_1")
	n := &network{Kernel: cmtest.New(devices)}
	n.stopped.Store("")
	devices.Fabric.OnPacket(func(p *connectx.Packet) (connectx.Fate, time.Duration) {
		if p.From == n.stopped.Load() {
			return connectx.Arrives, time.Millisecond // then this function decides again
		}
		return connectx.Arrives, 0
	})
	return n
}

// TestManyParts sends as many parts of an answer as the options allow, while the network delays them. A message of
// the peer that arrives at this time is no violation.
func TestManyParts(t *testing.T) {
	const parts = 4095
	n := newNetwork(t)
	c, s := apart(t, n.Kernel, listen(t, n.Kernel, msg.Options{}), msg.Options{Slot: 256, Calls: parts + 1})
	ctx := streamconntest.Deadline(t)
	r, err := c.Stream(ctx, &msg.Request{Parts: parts})
	if err != nil {
		t.Fatalf("Stream() = %v", err)
	}
	request, err := s.Receive(ctx)
	if err != nil {
		t.Fatalf("Receive() of the request = %v", err)
	}
	defer request.Free()
	n.stopped.Store("mlx5_0")
	for i := range parts {
		if err := request.ReplyPart(ctx, uint64(i), nil); err != nil {
			t.Fatalf("ReplyPart(%d) = %v", i, err)
		}
	}
	if err := c.Send(ctx, 7, nil); err != nil {
		t.Fatalf("Send() = %v", err)
	}
	m, err := s.Receive(ctx)
	if err != nil {
		t.Fatalf("Receive() with %d parts in flight = %v", parts, err)
	}
	m.Free()
	n.stopped.Store("")
	if err := request.Reply(ctx, parts, nil); err != nil {
		t.Fatalf("Reply() = %v", err)
	}
	for i := range parts + 1 {
		m, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("Next() of reply %d = %v", i, err)
		}
		if m.Tag() != uint64(i) {
			t.Fatalf("Next() = tag %d, want %d", m.Tag(), i)
		}
		m.Free()
	}
	if _, err := r.Next(ctx); err != io.EOF {
		t.Errorf("Next() after the reply = %v, want %v", err, io.EOF)
	}
}

// TestManyLoans lends much memory at a time, while the network delays the frames of this side. The windows that
// wait for the device are no fault of the peer. The end of the test closes the loans.
func TestManyLoans(t *testing.T) {
	const count = 2000
	n := newNetwork(t)
	c, s := apart(t, n.Kernel, listen(t, n.Kernel, msg.Options{}), msg.Options{})
	ctx := streamconntest.Deadline(t)
	mr := windowMR(t, c, count)
	n.stopped.Store("mlx5_1")
	if err := c.Send(ctx, 1, nil); err != nil {
		t.Fatalf("Send() = %v", err)
	}
	var all sync.WaitGroup
	before := c.Pending()
	for i := range count {
		all.Go(func() {
			if _, err := c.Lend(ctx, msg.Memory{Bytes: mr.Bytes()[i:][:1], MR: mr}, verbs.RemoteRead); err != nil {
				t.Errorf("Lend() of byte %d = %v", i, err)
			}
		})
	}
	for c.Pending() < before+count && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := s.Send(ctx, 2, nil); err != nil {
		t.Fatalf("Send() of the peer = %v", err)
	}
	m, err := c.Receive(ctx)
	if err != nil {
		t.Fatalf("Receive() with %d windows to bind = %v", count, err)
	}
	m.Free()
	n.stopped.Store("")
	all.Wait()
}

// TestLoanEndsBehindQueue takes lent memory back while the network delays the frames of this side. No window may be
// deallocated while a request in the send queue names it.
func TestLoanEndsBehindQueue(t *testing.T) {
	for _, how := range []string{"Loan.Close", "end of the context of Lend", "Conn.Close after a failure"} {
		t.Run(how, func(t *testing.T) {
			n := newNetwork(t)
			c, _ := apart(t, n.Kernel, listen(t, n.Kernel, msg.Options{}), msg.Options{}.WithUnbind(50*time.Millisecond))
			mr := windowMR(t, c, 1)
			var deallocated atomic.Int32
			n.OnCommand(func(cmd cmtest.Command) error {
				if cmd.Name == "UVERBS_METHOD_MW_DESTROY" {
					deallocated.Add(1)
					if pending := c.Pending(); pending > 0 {
						t.Errorf("Pending() while a window is deallocated = %d, want 0", pending)
					}
				}
				return nil
			})
			loanEndsBehindQueue(t, n, c, mr, how)
			if got := deallocated.Load(); got != 1 {
				t.Errorf("deallocated windows = %d, want 1", got)
			}
		})
	}
}

func loanEndsBehindQueue(t *testing.T, n *network, c *msg.Conn, mr *verbs.MR, how string) {
	ctx, cancel := context.WithCancel(streamconntest.Deadline(t))
	defer cancel()
	lend := func() (*msg.Loan, error) {
		return c.Lend(ctx, msg.Memory{Bytes: mr.Bytes(), MR: mr}, verbs.RemoteRead)
	}
	stop := func() {
		n.stopped.Store("mlx5_1")
		if err := c.Send(ctx, 1, nil); err != nil {
			t.Fatalf("Send() = %v", err)
		}
	}
	if how == "Loan.Close" {
		loan, err := lend()
		if err != nil {
			t.Fatalf("Lend() = %v", err)
		}
		stop()
		if err := loan.Close(); err != nil {
			t.Errorf("Loan.Close() = %v", err)
		}
		if err := c.Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Err() after Loan.Close = %v, want %v", err, os.ErrDeadlineExceeded)
		}
		return
	}
	stop()
	before := c.Pending()
	lent := make(chan error, 1)
	go func() { lent <- second(lend()) }()
	for c.Pending() < before+2 && ctx.Err() == nil { // the bind, and the request for which Lend waits
		time.Sleep(time.Millisecond)
	}
	if how == "end of the context of Lend" {
		cancel()
	} else {
		c.Fail(io.ErrUnexpectedEOF)
		closed(t, c)
	}
	if err := <-lent; err == nil {
		t.Errorf("Lend() = nil, want an error")
	}
}

// TestPeerTakesNothing answers a peer whose device takes no answers. It loses the connection before its answers
// have occupied much memory.
func TestPeerTakesNothing(t *testing.T) {
	const window, calls, most = 8, 8, 4096
	n := newNetwork(t)
	lc := msg.ListenConfig{CM: cm.ListenConfig{Host: n.Host()}}
	ln, err := lc.Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("Listen() = %v", err)
	}
	defer ln.Close()
	raw, err := streamconntest.DialRaw(t, n.Kernel, ln.Addr().String(), msg.Hello(256, window, calls))
	if err != nil {
		t.Fatalf("streamconntest.DialRaw: %v", err)
	}
	victim := accept(t, ln)
	ctx := streamconntest.Deadline(t)
	for i := range uint32(most) { // without receives after the first ones
		if err := streamconntest.SendRaw(t, raw, msg.Frame(msg.KindRequest, i+1, window, 0, 0, 0, nil)); err != nil {
			break
		}
		m, err := victim.Receive(ctx)
		if err != nil {
			break
		}
		if err := m.Reply(ctx, 0, nil); err != nil {
			t.Fatalf("Reply() of request %d = %v", i, err)
		}
		m.Free()
	}
	if err := victim.Err(); !errors.Is(err, syscall.EPROTO) {
		t.Errorf("Err() after %d requests of a peer that receives nothing = %v, want %v", most, err, syscall.EPROTO)
	}
}
