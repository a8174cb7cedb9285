// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestCalls makes calls of all lengths from many goroutines, in both directions at a time.
func TestCalls(t *testing.T) {
	onSizes(t, func(t *testing.T, c, s *msg.Conn) {
		go serve(s)
		go serve(c)
		longest := min(c.MaxLen(), s.MaxLen())
		var all sync.WaitGroup
		for _, from := range []*msg.Conn{c, s} {
			for g := range 10 {
				all.Go(func() {
					for i := range 50 {
						check(t, streamconntest.Deadline(t), from, uint64(g), pattern(g+i, (g*501+i*97)%(longest+1)))
					}
				})
			}
		}
		all.Wait()
	})
}

// TestMessages sends one-way messages in both directions at a time, and checks their order. The
// receiver holds some of them for a while.
func TestMessages(t *testing.T) {
	onSizes(t, func(t *testing.T, c, s *msg.Conn) {
		const count = 500
		hold := c.Window() > 1 && s.Window() > 1
		var all sync.WaitGroup
		for _, pipe := range [][2]*msg.Conn{{c, s}, {s, c}} {
			all.Go(func() {
				for i := range count {
					if err := pipe[0].Send(streamconntest.Deadline(t), uint64(i)<<40, pattern(i, i%(pipe[0].MaxLen()+1))); err != nil {
						t.Errorf("Send(%d) = %v", i, err)
						return
					}
				}
			})
			all.Go(func() {
				var held *msg.Message
				for i := range count {
					m, err := pipe[1].Receive(streamconntest.Deadline(t))
					if err != nil {
						t.Errorf("Receive() of message %d = %v", i, err)
						return
					}
					if want := pattern(i, i%(pipe[0].MaxLen()+1)); m.Tag() != uint64(i)<<40 || !bytes.Equal(m.Bytes(), want) || m.IsRequest() {
						t.Errorf("Receive() = tag %#x and %d bytes, want message %d with %d bytes", m.Tag(), len(m.Bytes()), i, len(want))
					}
					if held != nil {
						held.Free()
					}
					if held = m; !hold {
						held.Ref().Free()
						held.Free()
						held = nil
					}
				}
				if held != nil {
					held.Free()
				}
			})
		}
		all.Wait()
	})
}

// TestFullWindows fills the windows in both directions with messages, or with calls, before a program
// receives. Then all of them must arrive.
func TestFullWindows(t *testing.T) {
	for name, calls := range map[string]bool{"messages": false, "calls": true} {
		t.Run(name, func(t *testing.T) {
			onSizes(t, func(t *testing.T, c, s *msg.Conn) {
				const senders = 200
				ctx := streamconntest.Deadline(t)
				var all sync.WaitGroup
				for _, from := range []*msg.Conn{c, s} {
					for i := range senders {
						all.Go(func() {
							if calls {
								check(t, ctx, from, uint64(i), pattern(i, 20))
							} else if err := from.Send(ctx, uint64(i), nil); err != nil {
								t.Errorf("Send(%d) = %v", i, err)
							}
						})
					}
				}
				for last, now := [2]uint32{1}, [2]uint32{}; last != now; time.Sleep(20 * time.Millisecond) {
					last, now = now, [2]uint32{c.Frames(), s.Frames()}
				}
				for _, to := range []*msg.Conn{c, s} {
					all.Go(func() {
						var seen [senders]bool
						for range senders {
							m, err := to.Receive(ctx)
							if err != nil {
								t.Errorf("Receive() = %v", err)
								return
							}
							if m.Tag() >= senders || seen[m.Tag()] {
								t.Errorf("Receive() = tag %d, want each tag once", m.Tag())
								return
							}
							seen[m.Tag()] = true
							if m.IsRequest() {
								if err := m.Reply(ctx, m.Tag()+1, reversed(m.Bytes())); err != nil {
									t.Errorf("Reply(%d) = %v", m.Tag(), err)
								}
							}
							m.Free()
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// TestSlowConsumer stops receiving on one connection. Other connections of the same server go on.
func TestSlowConsumer(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, msg.Options{Window: slowWindow})
		slowConsumer(t, ln, func() *msg.Conn { return dial(t, k, msg.Options{}, ln) })
	})
}

// slowWindow is the Options.Window of the listener of slowConsumer.
const slowWindow = 4

func slowConsumer(t *testing.T, ln *msg.Listener, connect func() *msg.Conn) {
	stopped := connect()
	held := accept(t, ln)
	c := connect()
	go serve(accept(t, ln))
	for i := range slowWindow {
		if err := stopped.Send(streamconntest.Deadline(t), uint64(i), nil); err != nil {
			t.Fatalf("Send() of message %d = %v", i, err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := stopped.Send(short, slowWindow, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Send() into a full window = %v, want %v", err, os.ErrDeadlineExceeded)
	}
	for i := range 20 {
		check(t, streamconntest.Deadline(t), c, uint64(i), pattern(i, 100))
	}
	for i := range slowWindow {
		m, err := held.Receive(streamconntest.Deadline(t))
		if err != nil || m.Tag() != uint64(i) {
			t.Fatalf("Receive() = %v, %v, want message %d", m, err, i)
		}
		m.Free()
	}
	if err := stopped.Send(streamconntest.Deadline(t), slowWindow, nil); err != nil {
		t.Errorf("Send() after Free = %v", err)
	}
}

// TestFailures fails calls, by Fail and by Free of the request.
func TestFailures(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		go func() {
			for {
				m, err := s.Receive(context.Background())
				if err != nil {
					return
				}
				if m.Tag() == 1 {
					if err := m.Fail(t.Context(), "no such key"); err != nil {
						t.Errorf("Fail() = %v", err)
					}
					if err := m.Reply(t.Context(), 0, nil); !errors.Is(err, syscall.EINVAL) {
						t.Errorf("Reply() after Fail = %v, want %v", err, syscall.EINVAL)
					}
				}
				m.Free()
			}
		}()
		for i := range 300 {
			want := []string{"", "no such key"}[i%2]
			_, err := c.Call(streamconntest.Deadline(t), uint64(i%2), nil)
			if remote, ok := errors.AsType[*msg.RemoteError](err); !ok || remote.Reason != want {
				t.Fatalf("Call() = %v, want a RemoteError with reason %q", err, want)
			}
		}
		long := make([]byte, c.MaxLen()+1)
		if _, err := c.Call(streamconntest.Deadline(t), 0, long); !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("Call() with %d bytes = %v, want %v", len(long), err, syscall.EMSGSIZE)
		}
		if err := c.Send(streamconntest.Deadline(t), 0, long); !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("Send() with %d bytes = %v, want %v", len(long), err, syscall.EMSGSIZE)
		}
	})
}

// TestCancel cancels calls. Their requests see it, and their answers are dropped.
func TestCancel(t *testing.T) {
	onSizes(t, func(t *testing.T, c, s *msg.Conn) {
		type request struct {
			m   *msg.Message
			ctx context.Context
		}
		requests := make(chan request, 100)
		go func() {
			for {
				m, err := s.Receive(context.Background())
				if err != nil {
					close(requests)
					return
				}
				requests <- request{m, m.Context()}
			}
		}()
		for i := range 30 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := c.Call(ctx, uint64(i), pattern(i, 100))
				done <- err
			}()
			var r request
			select {
			case r = <-requests:
			case <-time.After(streamconntest.Limit):
				t.Fatalf("request %d has not arrived", i)
			}
			if err := r.ctx.Err(); err != nil {
				t.Fatalf("Context().Err() of a request = %v, want nil", err)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatalf("Call() = %v, want %v", err, context.Canceled)
			}
			select {
			case <-r.ctx.Done():
			case <-time.After(streamconntest.Limit):
				t.Fatal("Context() has not ended after the call was cancelled")
			}
			if err := r.m.Reply(t.Context(), 0, nil); err != nil {
				t.Errorf("Reply() to a cancelled call = %v", err)
			}
			r.m.Free()
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			for r := range requests {
				r.m.Reply(context.Background(), r.m.Tag()+1, reversed(r.m.Bytes()))
				r.m.Free()
			}
		}()
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 300 { // at any time
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(1<<rng.IntN(12)))*time.Microsecond)
			m, err := c.Call(ctx, uint64(i), pattern(i, 100))
			switch {
			case err == nil:
				if want := reversed(pattern(i, 100)); m.Tag() != uint64(i)+1 || !bytes.Equal(m.Bytes(), want) {
					t.Errorf("Call(%d) = tag %d and %d bytes, want tag %d and the bytes in reverse", i, m.Tag(), len(m.Bytes()), i+1)
				}
				m.Free()
			case !errors.Is(err, os.ErrDeadlineExceeded):
				t.Fatalf("Call(%d) = %v, want %v", i, err, os.ErrDeadlineExceeded)
			}
			cancel()
		}
		check(t, streamconntest.Deadline(t), c, 7, pattern(1, 20))
		closed(t, c)
		<-answered
	})
}

// TestClose checks the errors on both sides after one of them has closed.
func TestClose(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		ctx := streamconntest.Deadline(t)
		errs := make(chan error, 2)
		go func() { _, err := c.Call(ctx, 0, nil); errs <- err }()
		go func() { _, err := s.Call(ctx, 0, nil); errs <- err }()
		for _, x := range []*msg.Conn{c, s} {
			m, err := x.Receive(ctx)
			if err != nil {
				t.Fatalf("Receive() = %v", err)
			}
			defer m.Free()
		}
		for i := range 3 {
			if err := c.Send(ctx, uint64(i), pattern(i, 1000)); err != nil {
				t.Fatalf("Send() = %v", err)
			}
		}
		closed(t, c)
		for range 2 {
			err := <-errs
			if _, ok := errors.AsType[*cm.OpError](err); !ok || !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("Call() during Close = %v, want net.ErrClosed here and ECONNRESET there", err)
			}
		}
		for i := range 3 {
			m, err := s.Receive(ctx)
			if err != nil || m.Tag() != uint64(i) || !bytes.Equal(m.Bytes(), pattern(i, 1000)) {
				t.Fatalf("Receive() = %v, %v, want message %d", m, err, i)
			}
			m.Free()
		}
		if m, err := s.Receive(ctx); err != io.EOF {
			t.Errorf("Receive() after the peer's Close = %v, %v, want io.EOF", m, err)
		}
		if err := s.Send(ctx, 0, nil); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Send() after the peer's Close = %v, want %v", err, syscall.ECONNRESET)
		}
		for name, err := range map[string]error{
			"Send":    c.Send(ctx, 0, nil),
			"Receive": second(c.Receive(ctx)),
			"Call":    second(c.Call(ctx, 0, nil)),
			"Close":   c.Close(),
		} {
			if name == "Close" && err != nil || name != "Close" && !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s() after Close = %v, want net.ErrClosed except for Close", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestCloseAnyTime closes connections while many goroutines use both sides. Each of them must return.
func TestCloseAnyTime(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, msg.Options{Window: 5})
		for round := range 40 {
			c, s := dial(t, k, msg.Options{Calls: 3, Window: 4}, ln), accept(t, ln)
			ctx := streamconntest.Deadline(t)
			var all sync.WaitGroup
			for _, x := range []*msg.Conn{c, s} {
				for range 4 {
					all.Go(func() { use(t, ctx, x, round) })
				}
				all.Go(func() { serve(x) })
			}
			time.Sleep(time.Duration(round) * 200 * time.Microsecond)
			closed(t, []*msg.Conn{c, s}[round%2])
			all.Wait()
			closed(t, c)
			closed(t, s)
		}
	})
}

// use sends messages and makes calls until the connection ends.
func use(t *testing.T, ctx context.Context, c *msg.Conn, seed int) {
	for i := 0; ; i++ {
		err := c.Send(ctx, 0, pattern(i, 300))
		if err == nil {
			var m *msg.Message
			if m, err = c.Call(ctx, 1, pattern(i, 100)); err == nil {
				m.Free()
			}
		}
		if remote := (*msg.RemoteError)(nil); err != nil && !errors.As(err, &remote) {
			if c.Err() == nil {
				t.Errorf("round %d: Send() or Call() = %v before the end of the connection", seed, err)
			}
			return
		}
	}
}

// TestPeerBreaks has a QP fail while calls wait. They must return with the cause.
func TestPeerBreaks(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		errs := make(chan error, 1)
		go func() { _, err := c.Call(streamconntest.Deadline(t), 0, nil); errs <- err }()
		m, err := s.Receive(streamconntest.Deadline(t))
		if err != nil {
			t.Fatalf("Receive() = %v", err)
		}
		m.Free()
		if err := <-errs; err == nil {
			t.Fatal("Call() = nil, want a RemoteError")
		}
		go func() { _, err := c.Call(streamconntest.Deadline(t), 0, nil); errs <- err }()
		if m, err = s.Receive(streamconntest.Deadline(t)); err != nil {
			t.Fatalf("Receive() = %v", err)
		}
		c.BreakQP(t)
		if err := <-errs; !isBroken(err) {
			t.Errorf("Call() on a broken QP = %v, want a *cm.BrokenError", err)
		}
		if _, err := c.Receive(streamconntest.Deadline(t)); !isBroken(err) {
			t.Errorf("Receive() on a broken QP = %v, want a *cm.BrokenError", err)
		}
		m.Free()
	})
}

func isBroken(err error) bool {
	_, ok := errors.AsType[*cm.BrokenError](err)
	return ok
}

// TestMisuse uses freed messages.
func TestMisuse(t *testing.T) {
	c, s := pair(t, streamconntest.RXE(t), ends{})
	if err := c.Send(streamconntest.Deadline(t), 1, []byte("x")); err != nil {
		t.Fatalf("Send() = %v", err)
	}
	m, err := s.Receive(streamconntest.Deadline(t))
	if err != nil {
		t.Fatalf("Receive() = %v", err)
	}
	if err := m.Reply(streamconntest.Deadline(t), 0, nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Reply() to a message = %v, want %v", err, syscall.EINVAL)
	}
	ctx := m.Context()
	m.Free()
	if ctx.Err() == nil {
		t.Error("Context() has not ended with Free")
	}
	for name, f := range map[string]func(){"Free": m.Free, "Ref": func() { m.Ref() }, "Bytes": func() { m.Bytes() }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s() after Free did not panic", name)
				}
			}()
			f()
		}()
	}
}

// TestAllocations checks that calls and messages allocate nothing, at both ends. The fake kernel with rxe
// allocates itself.
func TestAllocations(t *testing.T) {
	c, s := pair(t, streamconntest.MLX5(t), ends{})
	ctx := t.Context()
	go func() {
		for {
			m, err := s.Receive(ctx)
			if err != nil {
				return
			}
			if m.IsRequest() {
				m.Reply(ctx, 0, m.Bytes())
			}
			m.Free()
		}
	}()
	for _, size := range []int{64, 1000} {
		data := make([]byte, size)
		once := func() {
			if err := c.Send(ctx, 0, data); err != nil {
				t.Fatalf("c.Send: %v", err)
			}
			m, err := c.Call(ctx, 0, data)
			if err != nil {
				t.Fatalf("c.Call: %v", err)
			}
			m.Free()
		}
		for range 300 {
			once()
		}
		if n := testing.AllocsPerRun(500, once); n > 0 {
			t.Errorf("a Send and a Call with %d bytes allocate %v times, want 0", size, n)
		}
	}
}

// TestQuiet checks that two idle connections send nothing.
func TestQuiet(t *testing.T) {
	least := sizes["least"]
	c, s := pair(t, streamconntest.MLX5(t), least)
	ctx := streamconntest.Deadline(t)
	for range 50 { // all combinations of frames that cross each other
		var all sync.WaitGroup
		for _, x := range []*msg.Conn{c, s} {
			all.Go(func() { x.Send(ctx, 0, nil) })
			all.Go(func() {
				if m, err := x.Receive(ctx); err == nil {
					m.Free()
				}
			})
		}
		all.Wait()
	}
	poll, cancel := context.WithCancel(t.Context())
	var receivers sync.WaitGroup
	defer receivers.Wait()
	defer cancel()
	for _, x := range []*msg.Conn{c, s} {
		receivers.Go(func() { x.Receive(poll) }) // takes the grants of credits
	}
	last := [2]uint32{}
	for end := time.Now().Add(streamconntest.Limit); ; {
		now := [2]uint32{c.Frames(), s.Frames()}
		if now == last {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Frames() = %v and %v before, want no more frames of idle connections", now, last)
		}
		last = now
		time.Sleep(200 * time.Millisecond)
	}
}
