// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// streamEnds are the options of both sides of a connection for streams.
var streamEnds = ends{msg.Options{Window: 2, Calls: 12}, msg.Options{Window: 2, Calls: 12}}

// count sends as many parts as the tag of a request states, and then a reply.
func count(ctx context.Context, m *msg.Message) error {
	for i := range m.Tag() {
		if err := m.ReplyPart(ctx, i, pattern(int(i), int(i)%200)); err != nil {
			return err
		}
	}
	return m.Reply(ctx, m.Tag(), []byte("last"))
}

// serveCounts answers the requests of a connection by count. It ends with the connection.
func serveCounts(c *msg.Conn) {
	for {
		m, err := c.Receive(context.Background())
		if err != nil {
			return
		}
		go func() {
			defer m.Free()
			_ = count(m.Context(), m) // the caller may have cancelled
		}()
	}
}

// takeAll takes the replies of count. It holds up to hold parts.
func takeAll(ctx context.Context, r *msg.Replies, n, hold int) error {
	var held []*msg.Message
	defer func() {
		for _, m := range held {
			m.Free()
		}
	}()
	for i := 0; ; i++ {
		m, err := r.Next(ctx)
		if err != nil {
			if err == io.EOF && i == n+1 {
				return nil
			}
			return fmt.Errorf("Next() of reply %d = %w, want %d replies", i, err, n+1)
		}
		want := pattern(i, i%200)
		if i == n {
			want = []byte("last")
		}
		if m.Tag() != uint64(i) || !bytes.Equal(m.Bytes(), want) {
			return fmt.Errorf("Next() = tag %d and %d bytes, want reply %d with %d bytes", m.Tag(), len(m.Bytes()), i, len(want))
		}
		if held = append(held, m); len(held) > hold {
			held[0].Free()
			held = held[1:]
		}
	}
}

// TestStreams makes calls with several replies from many goroutines, in both directions, with more parts than
// there are receives.
func TestStreams(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, streamEnds)
		go serveCounts(c)
		go serveCounts(s)
		ctx := streamconntest.Deadline(t)
		var all sync.WaitGroup
		for _, from := range []*msg.Conn{c, s} {
			for parts := 1; parts < 12; parts++ {
				all.Go(func() {
					for _, n := range []int{0, 1, parts, 40} {
						r, err := from.Stream(ctx, &msg.Request{Tag: uint64(n), Parts: parts})
						if err != nil {
							t.Errorf("Stream() with %d parts = %v", parts, err)
							return
						}
						if err := takeAll(ctx, r, n, parts-1); err != nil {
							t.Errorf("%d parts at a time: %v", parts, err)
						}
						if _, err := r.Next(ctx); err != io.EOF {
							t.Errorf("Next() after the end = %v, want %v", err, io.EOF)
						}
						if err := r.Close(); err != nil {
							t.Errorf("Close() = %v", err)
						}
					}
				})
			}
		}
		all.Wait()
	})
}

// TestSlowStream does not take the parts of one stream. Its sender waits, and other streams and calls go on.
func TestSlowStream(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, streamEnds)
		go serveCounts(s)
		ctx := streamconntest.Deadline(t)
		slow, err := c.Stream(ctx, &msg.Request{Tag: 100, Parts: 3})
		if err != nil {
			t.Fatalf("Stream() = %v", err)
		}
		for range 5 {
			r, err := c.Stream(ctx, &msg.Request{Tag: 20, Parts: 4})
			if err != nil {
				t.Fatalf("Stream() = %v", err)
			}
			if err := takeAll(ctx, r, 20, 0); err != nil {
				t.Errorf("takeAll: %v", err)
			}
			m, err := c.Call(ctx, 0, nil)
			if err != nil {
				t.Fatalf("Call() = %v", err)
			}
			m.Free()
		}
		for c.Parts() < 3 && ctx.Err() == nil {
			if m, err := c.Call(ctx, 0, nil); err == nil { // takes the arrived parts
				m.Free()
			}
		}
		if n := c.Parts(); n != 3 {
			t.Errorf("%d parts of the slow stream have arrived, want 3", n)
		}
		if err := takeAll(ctx, slow, 100, 2); err != nil {
			t.Errorf("takeAll: %v", err)
		}
	})
}

// TestStreamEnds ends streams early: by Close, by Fail, by the end of the context of Next, and by the end of
// the connection.
func TestStreamEnds(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, streamEnds)
		ctx := streamconntest.Deadline(t)
		ended := make(chan error, 1)
		go func() {
			for {
				m, err := s.Receive(context.Background())
				if err != nil {
					return
				}
				go func() {
					defer m.Free()
					if m.MaxParts() == 0 {
						if err := m.ReplyPart(ctx, 0, nil); !errors.Is(err, syscall.EINVAL) {
							t.Errorf("ReplyPart() to a Call = %v, want %v", err, syscall.EINVAL)
						}
						return
					}
					for i := uint64(0); ; i++ {
						if i == m.Tag() {
							ended <- m.Fail(ctx, "enough")
							return
						}
						if err := m.ReplyPart(ctx, i, nil); err != nil {
							ended <- err
							return
						}
					}
				}()
			}
		}()
		stream := func(tag uint64) *msg.Replies {
			r, err := c.Stream(ctx, &msg.Request{Tag: tag, Parts: 4, Write: msg.Memory{Bytes: make([]byte, 10)}})
			if err != nil {
				t.Fatalf("Stream() = %v", err)
			}
			m, err := r.Next(ctx)
			if err != nil {
				t.Fatalf("Next() = %v", err)
			}
			m.Free()
			return r
		}
		for range 10 { // more than Options.Calls allows at a time
			r := stream(1 << 40)
			if err := r.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
			if _, err := r.Next(ctx); err == nil || err == io.EOF {
				t.Errorf("Next() after Close = %v, want an error", err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ReplyPart() of a cancelled call = %v, want %v", err, context.Canceled)
			}
		}
		r := stream(2)
		m, err := r.Next(ctx)
		if err != nil || m.Tag() != 1 {
			t.Fatalf("Next() = %v, %v, want part 1", m, err)
		}
		m.Free()
		_, err = r.Next(ctx)
		if remote, ok := errors.AsType[*msg.RemoteError](err); !ok || remote.Reason != "enough" {
			t.Errorf("Next() = %v, want a RemoteError with reason \"enough\"", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Fail() = %v", err)
		}
		if m, err := c.Call(ctx, 0, nil); err == nil {
			t.Errorf("Call() = %v, want a RemoteError", m)
		}
		if _, err := c.Stream(ctx, &msg.Request{Parts: 12}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Stream() with too many parts = %v, want %v", err, syscall.EINVAL)
		}

		quiet, err := c.Stream(ctx, &msg.Request{Tag: 1 << 40, Parts: 1})
		if err != nil {
			t.Fatalf("Stream() = %v", err)
		}
		if m, err = quiet.Next(ctx); err != nil {
			t.Fatalf("Next() = %v", err)
		}
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		if _, err := quiet.Next(short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Next() without a free receive = %v, want %v", err, os.ErrDeadlineExceeded)
		}
		m.Free()
		if m, err = quiet.Next(ctx); err != nil || m.Tag() != 1 {
			t.Fatalf("Next() = %v, %v, want part 1", m, err)
		}
		m.Free()
		closed(t, s)
		for err = nil; err == nil; m.Free() {
			if m, err = quiet.Next(ctx); err != nil {
				break
			}
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Next() after the end of the peer = %v, want %v", err, syscall.ECONNRESET)
		}
		if err := <-ended; err == nil {
			t.Error("ReplyPart() after Close = nil, want an error")
		}
	})
}

// TestCloseWithStreams closes connections while streams and transfers are in progress.
func TestCloseWithStreams(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, streamEnds.listen)
		for round := range 20 {
			c, s := dial(t, k, streamEnds.dial, ln), accept(t, ln)
			ctx := streamconntest.Deadline(t)
			var all sync.WaitGroup
			for i, x := range []*msg.Conn{c, s} {
				all.Go(func() { // streams to s, and calls with lent memory to c
					if i == 0 {
						serveLent(x)
					} else {
						serveCounts(x)
					}
				})
			}
			all.Go(func() {
				for {
					r, err := c.Stream(ctx, &msg.Request{Tag: 30, Parts: 4})
					if err != nil {
						return
					}
					if takeAll(ctx, r, 30, 1) != nil {
						r.Close()
						return
					}
				}
			})
			all.Go(func() {
				for {
					m, err := s.Do(ctx, &msg.Request{Read: msg.Memory{Bytes: make([]byte, 100_000)}, Write: msg.Memory{Bytes: make([]byte, 100_000)}})
					if err != nil {
						return
					}
					m.Free()
				}
			})
			time.Sleep(time.Duration(round) * 500 * time.Microsecond)
			closed(t, []*msg.Conn{c, s}[round%2])
			all.Wait()
			closed(t, c)
			closed(t, s)
		}
	})
}
