// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/msg"
	"purerdma/verbs"
)

// reverse answers a request. It reads the lent memory, writes its bytes in reverse order to the memory that it
// may write, and returns the number of bytes.
func reverse(ctx context.Context, c *msg.Conn, m *msg.Message) error {
	read, write := m.Lent()
	n := int(read.Length)
	if n != int(write.Length) || n > 1<<20 {
		return fmt.Errorf("the request lends %d and %d bytes", read.Length, write.Length)
	}
	b, err := c.Pool().Get(ctx, n)
	if err != nil {
		return err
	}
	defer b.Free()
	if err := m.ReadLent(ctx, b.SGE(), 0); err != nil {
		return err
	}
	copy(b.Bytes(), reversed(b.Bytes()))
	if half := n / 2; half > 0 {
		if err := m.WriteLent(ctx, b.Slice(half, n-half), half); err != nil {
			return err
		}
		if err := m.WriteLent(ctx, b.Slice(0, half), 0); err != nil {
			return err
		}
	} else if err := m.WriteLent(ctx, b.SGE(), 0); err != nil {
		return err
	}
	return m.Reply(ctx, m.Tag()+1, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// serveLent answers each request by reverse, on a goroutine of its own. It ends with the connection.
func serveLent(c *msg.Conn) {
	for {
		m, err := c.Receive(context.Background())
		if err != nil {
			return
		}
		go func() {
			defer m.Free()
			if err := reverse(context.Background(), c, m); err != nil {
				_ = m.Fail(context.Background(), err.Error()) // the connection may have failed
			}
		}()
	}
}

// windowMR returns memory to which windows can be bound. The end of the test closes it.
func windowMR(t testing.TB, c *msg.Conn, n int) *verbs.MR {
	t.Helper()
	mr, err := c.PD().Alloc(n, verbs.LocalWrite|verbs.MWBind)
	if err != nil {
		t.Fatalf("Alloc() = %v", err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := mr.Close(); err != nil {
			t.Errorf("MR.Close() = %v", err)
		}
	})
	return mr
}

// exchange makes a call of serveLent and checks the result. If mr is nil, the memory is of the Go heap.
func exchange(t testing.TB, ctx context.Context, c *msg.Conn, seed, n int, mr *verbs.MR) {
	t.Helper()
	out, in := make([]byte, n), make([]byte, n)
	if mr != nil {
		out, in = mr.Bytes()[:n], mr.Bytes()[mr.Len()-n:]
	}
	copy(out, pattern(seed, n))
	clear(in)
	m, err := c.Do(ctx, &msg.Request{Tag: uint64(seed), Read: msg.Memory{Bytes: out, MR: mr}, Write: msg.Memory{Bytes: in, MR: mr}})
	if err != nil {
		t.Errorf("Do() with %d bytes = %v", n, err)
		return
	}
	defer m.Free()
	if got := binary.BigEndian.Uint64(m.Bytes()); got != uint64(n) || m.Tag() != uint64(seed)+1 || !bytes.Equal(in, reversed(pattern(seed, n))) {
		t.Errorf("Do() with %d bytes = reply %d with tag %d, want the bytes in reverse", n, got, m.Tag())
	}
}

// TestLentMemory makes calls that lend memory, from many goroutines in both directions, with small calls
// between them.
func TestLentMemory(t *testing.T) {
	onSizes(t, func(t *testing.T, c, s *msg.Conn) {
		go serveLent(s)
		go serveLent(c)
		ctx := streamconntest.Deadline(t)
		var all sync.WaitGroup
		for _, from := range []*msg.Conn{c, s} {
			for g, mr := range []*verbs.MR{nil, windowMR(t, from, 1_200_000)} {
				all.Go(func() {
					for i, n := range []int{1, 33, 5000, 256 << 10, 260<<10 + 1, 600_000} {
						exchange(t, ctx, from, g+i, n, mr)
					}
				})
			}
		}
		all.Wait()
	})
}

// TestWindows checks that memory with an MR is lent by windows, which are used again, except on rxe.
func TestWindows(t *testing.T) {
	for name, tc := range map[string]struct {
		machine func(testing.TB) *cmtest.Kernel
		want    int
	}{"rxe": {streamconntest.RXE, 0}, "mlx5": {streamconntest.MLX5, 2}} {
		t.Run(name, func(t *testing.T) {
			c, s := pair(t, tc.machine(t), ends{})
			go serveLent(s)
			mr := windowMR(t, c, 20_000)
			for i := range 5 {
				exchange(t, streamconntest.Deadline(t), c, i, 10_000, mr)
			}
			if n := c.Windows(); n != tc.want {
				t.Errorf("%d windows, want %d", n, tc.want)
			}
		})
	}
}

// TestLentRights uses lent memory in other ways than the request allows. These are errors of this side, and
// the connection goes on.
func TestLentRights(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		ctx := streamconntest.Deadline(t)
		var served sync.WaitGroup
		served.Go(func() {
			m, err := s.Receive(ctx)
			if err != nil {
				t.Errorf("Receive() = %v", err)
				return
			}
			defer m.Free()
			read, write := m.Lent()
			if read.Length != 1000 || read.Access != verbs.RemoteRead || write != (msg.Token{}) || string(m.Bytes()) != "data" {
				t.Errorf("Lent() = %v, %v with data %q, want 1000 bytes to read and the data", read, write, m.Bytes())
			}
			b, err := s.Pool().Get(ctx, 2000)
			if err != nil {
				t.Errorf("Get() = %v", err)
				return
			}
			defer b.Free()
			for name, err := range map[string]error{
				"beyond the end": m.ReadLent(ctx, b.Slice(0, 501), 500),
				"negative":       m.ReadLent(ctx, b.Slice(0, 1), -1),
				"too many":       m.ReadLent(ctx, b.SGE(), 0),
				"nothing lent":   m.WriteLent(ctx, b.Slice(0, 1), 0),
				"longer":         s.Read(ctx, b.SGE(), read),
			} {
				if !errors.Is(err, verbs.ErrRemoteLength) {
					t.Errorf("%s: %v, want %v", name, err, verbs.ErrRemoteLength)
				}
			}
			if err := s.Write(ctx, b.Slice(0, 1), read); !errors.Is(err, syscall.EACCES) {
				t.Errorf("Write() to memory that was lent for reading = %v, want %v", err, syscall.EACCES)
			}
			if err := m.Reply(ctx, 0, nil); err != nil {
				t.Errorf("Reply() = %v", err)
			}
			if err := m.ReadLent(ctx, b.Slice(0, 10), 0); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("ReadLent() after Reply = %v, want %v", err, syscall.EINVAL)
			}
		})
		m, err := c.Do(ctx, &msg.Request{Data: []byte("data"), Read: msg.Memory{Bytes: make([]byte, 1000)}})
		if err != nil {
			t.Fatalf("Do() = %v", err)
		}
		m.Free()
		served.Wait()
		go serveLent(s)
		exchange(t, ctx, c, 1, 100_000, nil)
		for name, r := range map[string]*msg.Request{
			"too long": {Data: make([]byte, c.MaxLen()-19), Read: msg.Memory{Bytes: make([]byte, 1)}},
			"parts":    {Parts: 1},
		} {
			if _, err := c.Do(ctx, r); !errors.Is(err, syscall.EMSGSIZE) && !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s: Do() = %v, want EMSGSIZE or EINVAL", name, err)
			}
		}
	})
}

// TestLateUse reads lent memory after its end, through the token. That costs the reader its connection. Other
// connections of both sides go on.
func TestLateUse(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, msg.Options{})
		honest := dial(t, k, msg.Options{}, ln)
		go serveLent(accept(t, ln))
		ctx := streamconntest.Deadline(t)
		for name, windows := range map[string]bool{"registered": false, "MR": true} {
			for _, long := range []bool{false, true} {
				what := fmt.Sprintf("%s, lent until Close: %v", name, long)
				c := dial(t, k, msg.Options{}, ln)
				s := accept(t, ln)
				mem := msg.Memory{Bytes: make([]byte, 5000)}
				if windows {
					mem.MR = windowMR(t, c, 10_000)
					mem.Bytes = mem.MR.Bytes()[5000:]
				}
				copy(mem.Bytes, "lent")
				token := lendOnce(t, c, s, mem, long)
				b, err := s.Pool().Get(ctx, 4)
				if err != nil {
					t.Fatalf("Get() = %v", err)
				}
				if err := s.Read(ctx, b.SGE(), token); err == nil {
					t.Errorf("%s: Read() after the end = nil with %q, want an error", what, b.Bytes())
				}
				b.Free()
				if _, err := s.Receive(ctx); err == nil {
					t.Errorf("%s: Receive() = nil, want an error", what)
				}
				exchange(t, ctx, honest, 1, 10_000, nil)
			}
		}
	})
}

// lendOnce lends memory, has the peer read it, and ends the loan. It returns the token.
func lendOnce(t *testing.T, c, s *msg.Conn, mem msg.Memory, long bool) (token msg.Token) {
	t.Helper()
	ctx := streamconntest.Deadline(t)
	r := &msg.Request{}
	var loan *msg.Loan
	if long {
		var err error
		if loan, err = c.Lend(ctx, mem, verbs.RemoteRead|verbs.RemoteWrite); err != nil {
			t.Fatalf("Lend() = %v", err)
		}
		r.Data, _ = loan.Token().MarshalBinary()
	} else {
		r.Read = mem
	}
	var served sync.WaitGroup
	served.Go(func() {
		m, err := s.Receive(ctx)
		if err != nil {
			t.Errorf("Receive() = %v", err)
			return
		}
		defer m.Free()
		if token, _ = m.Lent(); long {
			if err := token.UnmarshalBinary(m.Bytes()); err != nil {
				t.Errorf("UnmarshalBinary() = %v", err)
			}
		}
		b, err := s.Pool().Get(ctx, len(mem.Bytes))
		if err != nil {
			t.Errorf("Get() = %v", err)
			return
		}
		defer b.Free()
		if err := s.Read(ctx, b.SGE(), token); err != nil || string(b.Bytes()[:4]) != "lent" {
			t.Errorf("Read() = %v with %q, want \"lent\"", err, b.Bytes()[:4])
		}
		if long {
			if err := s.Write(ctx, b.SGE(), token); err != nil {
				t.Errorf("Write() = %v", err)
			}
		}
		if err := m.Reply(ctx, 0, nil); err != nil {
			t.Errorf("Reply() = %v", err)
		}
	})
	m, err := c.Do(ctx, r)
	if err != nil {
		t.Fatalf("Do() = %v", err)
	}
	m.Free()
	served.Wait()
	if long {
		if err := loan.Close(); err != nil {
			t.Fatalf("Loan.Close() = %v", err)
		}
		if err := loan.Close(); err != nil {
			t.Errorf("second Loan.Close() = %v", err)
		}
	}
	return token
}

// TestFramesAreNotLent tries to read and write the memory of the frames of a peer, with the right key.
func TestFramesAreNotLent(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		for _, write := range []bool{false, true} {
			c, s := pair(t, k, ends{})
			framesAreNotLent(t, c, s, write)
		}
	})
}

func framesAreNotLent(t *testing.T, c, s *msg.Conn, write bool) {
	ctx := streamconntest.Deadline(t)
	theirs, err := s.Pool().Get(ctx, 100)
	if err != nil {
		t.Fatalf("Get() = %v", err)
	}
	defer theirs.Free()
	mine, err := c.Pool().Get(ctx, 100)
	if err != nil {
		t.Fatalf("Get() = %v", err)
	}
	defer mine.Free()
	copy(theirs.Bytes(), "theirs")
	copy(mine.Bytes(), "mine..")
	sge := theirs.SGE()
	token := msg.Token{RemoteMemory: verbs.RemoteMemory{Addr: sge.Addr, Length: math.MaxUint64 - sge.Addr, RKey: sge.LKey}, Access: verbs.RemoteRead | verbs.RemoteWrite}
	use := c.Read
	if write {
		use = c.Write
	}
	err = use(ctx, mine.SGE(), token)
	if err == nil && vmtest.Driver() == "siw" {
		// On iWARP a WRITE completes when TCP has taken it. The peer then ends the connection.
		select {
		case <-s.Done():
			err = s.Err()
		case <-ctx.Done():
		}
	}
	if err == nil {
		t.Errorf("use of the memory of frames, write %v, = nil, want an error", write)
	}
	if string(theirs.Bytes()[:6]) != "theirs" || string(mine.Bytes()[:4]) != "mine" {
		t.Errorf("memory = %q and %q, want no change", theirs.Bytes()[:6], mine.Bytes()[:6])
	}
}

// TestCancelLent cancels calls that lend memory, at any time. After Do has returned, the memory must not change,
// and the connection goes on.
func TestCancelLent(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		cancelLent(t, c, s)
	})
}

func cancelLent(t *testing.T, c, s *msg.Conn) {
	var writing atomic.Int32
	go func() {
		for {
			m, err := s.Receive(context.Background())
			if err != nil {
				return
			}
			go func() {
				defer m.Free()
				b, err := s.Pool().Get(m.Context(), 200_000)
				if err != nil {
					return
				}
				defer b.Free()
				copy(b.Bytes(), bytes.Repeat([]byte{0xff}, 200_000))
				for m.WriteLent(m.Context(), b.SGE(), 0) == nil { // until the call is cancelled
					writing.Add(1)
				}
			}()
		}
	}()
	for i, mr := range []*verbs.MR{nil, windowMR(t, c, 200_000), nil, nil} {
		mem := msg.Memory{Bytes: make([]byte, 200_000)}
		if mr != nil {
			mem = msg.Memory{Bytes: mr.Bytes(), MR: mr}
		}
		ctx, cancel := context.WithCancel(t.Context())
		before := writing.Load()
		go func() {
			for end := time.Now().Add(streamconntest.Limit); i < 3 && writing.Load() == before && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if m, err := c.Do(ctx, &msg.Request{Write: mem}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Do() = %v, %v, want %v", m, err, context.Canceled)
		}
		clear(mem.Bytes)
		time.Sleep(10 * time.Millisecond)
		if n := bytes.Count(mem.Bytes, []byte{0}); n != len(mem.Bytes) {
			t.Errorf("%d bytes were written after Do has returned, want 0", len(mem.Bytes)-n)
		}
		if err := c.Err(); err != nil {
			t.Fatalf("Err() after a cancelled call = %v, want nil", err)
		}
	}
}

// TestCancelIgnored cancels a call whose server does not answer. Do takes the memory back after a while, and
// the connection goes on, because the server does not use the memory.
func TestCancelIgnored(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{dial: msg.Options{}.WithGrace(50 * time.Millisecond)})
		ctx, cancel := context.WithCancel(t.Context())
		requests := make(chan *msg.Message, 1)
		go func() {
			m, err := s.Receive(context.Background())
			if err != nil {
				t.Errorf("Receive() = %v", err)
			}
			requests <- m
			cancel()
			serve(s)
		}()
		if _, err := c.Do(ctx, &msg.Request{Read: msg.Memory{Bytes: make([]byte, 100)}}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Do() = %v, want %v", err, context.Canceled)
		}
		m := <-requests
		b, err := s.Pool().Get(t.Context(), 100)
		if err != nil {
			t.Fatalf("Get() = %v", err)
		}
		defer b.Free()
		<-m.Context().Done() // the cancellation has arrived
		if err := m.ReadLent(t.Context(), b.SGE(), 0); !errors.Is(err, context.Canceled) {
			t.Errorf("ReadLent() of a cancelled call = %v, want %v", err, context.Canceled)
		}
		m.Free()
		check(t, streamconntest.Deadline(t), c, 1, pattern(1, 10))
	})
}

// TestSmallDuringBulk makes small calls while large transfers in both directions occupy the connection. They
// must not wait for the end of a transfer.
func TestSmallDuringBulk(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		smallDuringBulk(t, c, s)
	})
}

func smallDuringBulk(t *testing.T, c, s *msg.Conn) {
	const size, want = 16 << 20, 5
	ctx := streamconntest.Deadline(t)
	var round atomic.Int32 // of transfers
	over := make(chan struct{})
	go func() {
		for {
			m, err := s.Receive(ctx)
			if err != nil {
				return
			}
			go func() {
				defer m.Free()
				if read, _ := m.Lent(); read.Length == 0 {
					_ = m.Reply(ctx, m.Tag()+1, reversed(m.Bytes())) // check reports it
					return
				}
				if err := transferUntil(ctx, s, m, size, &round, over); err != nil {
					t.Errorf("transfer %d = %v", round.Load(), err)
				}
			}()
		}
	}()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		m, err := c.Do(ctx, &msg.Request{Read: msg.Memory{Bytes: make([]byte, size)}, Write: msg.Memory{Bytes: make([]byte, size)}})
		if err != nil {
			t.Errorf("Do() = %v", err)
			return
		}
		m.Free()
	})
	defer close(over)
	for n := 0; n < want; {
		before := round.Load()
		check(t, ctx, c, 1, pattern(n, 64))
		if before > 0 && round.Load() == before {
			n++ // it has not waited for the end of the transfer
		}
		if ctx.Err() != nil {
			t.Fatalf("%d calls have returned within one of %d transfers, want %d", n, before, want)
		}
	}
}

// transferUntil reads and writes the lent memory at a time, again and again, and answers the request.
func transferUntil(ctx context.Context, c *msg.Conn, m *msg.Message, size int, round *atomic.Int32, over chan struct{}) error {
	mr, err := c.PD().Alloc(size, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	for {
		select {
		case <-over:
			return m.Reply(ctx, 0, nil)
		default:
		}
		round.Add(1)
		written := make(chan error, 1)
		go func() { written <- m.WriteLent(ctx, mr.SGE(), 0) }()
		if err := errors.Join(m.ReadLent(ctx, mr.SGE(), 0), <-written); err != nil {
			return err
		}
	}
}
