// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
	"purerdma/verbs"
)

// Operations of random calls, which are the low bits of a tag.
const (
	randomReverse = iota // The answer is the data in reverse order.
	randomLent           // The same with lent memory.
	randomCount          // The answer has several parts. The other bits of the tag are their number.
	randomIgnored        // The request is freed without an answer, at some time.
	randomKinds
)

// TestRandom makes calls of all kinds from many goroutines of both sides, cancels some of them at any time, and
// checks every byte. The connection must survive.
func TestRandom(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, streamEnds)
		randomUse(t, c, s)
	})
}

// randomUse uses a connection for a while.
func randomUse(t *testing.T, c, s *msg.Conn) {
	calls := 60
	if longtest.Enabled() {
		calls = 3000
	}
	var all sync.WaitGroup
	for i, x := range []*msg.Conn{c, s} {
		go serveRandom(x)
		mr := windowMR(t, x, 4*100_000)
		for g := range 4 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(g)))
				for n := range calls {
					if err := callAtRandom(t.Context(), x, rng, mr.Bytes()[g*100_000:][:100_000], mr); err != nil {
						t.Errorf("side %d, goroutine %d, call %d: %v", i, g, n, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	for _, x := range []*msg.Conn{c, s} {
		if err := x.Err(); err != nil {
			t.Errorf("Err() = %v, want nil", err)
		}
	}
	check(t, streamconntest.Deadline(t), c, randomKinds*7, pattern(1, 20))
}

// serveRandom answers requests. It ends with the connection.
func serveRandom(c *msg.Conn) {
	for {
		m, err := c.Receive(context.Background())
		if err != nil {
			return
		}
		go func() {
			defer m.Free()
			var err error
			switch m.Tag() % randomKinds {
			case randomReverse:
				err = m.Reply(m.Context(), m.Tag()+1, reversed(m.Bytes()))
			case randomLent:
				err = reverse(m.Context(), c, m)
			case randomCount:
				for i := range m.Tag() / randomKinds {
					if err = m.ReplyPart(m.Context(), i, pattern(int(i), int(i)%200)); err != nil {
						break
					}
				}
				if err == nil {
					err = m.Reply(m.Context(), m.Tag()/randomKinds, []byte("last"))
				}
			default:
				time.Sleep(time.Duration(m.Tag()/randomKinds) * time.Microsecond)
			}
			_ = err // the caller has cancelled, or the connection has ended
		}()
	}
}

// callAtRandom makes one call, and possibly cancels it. mem is a part of mr. It returns an error if the result is
// wrong.
func callAtRandom(parent context.Context, c *msg.Conn, rng *rand.Rand, mem []byte, mr *verbs.MR) error {
	ctx, cancel := context.WithCancel(parent)
	if rng.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(parent, time.Duration(rng.IntN(3000))*time.Microsecond)
	}
	defer cancel()
	kind, n := uint64(rng.IntN(randomKinds)), rng.IntN(40)
	tag := kind + randomKinds*uint64(n)
	switch kind {
	case randomLent:
		return lentAtRandom(ctx, c, tag, mem[:2+rng.IntN(len(mem)-1)], mr)
	case randomCount:
		parts := 1 + rng.IntN(3)
		r, err := c.Stream(ctx, &msg.Request{Tag: tag, Parts: parts})
		if err != nil {
			return unlessEnded(ctx, err)
		}
		defer r.Close()
		return unlessEnded(ctx, takeAll(ctx, r, n, rng.IntN(parts)))
	}
	data := pattern(n, rng.IntN(300))
	m, err := c.Call(ctx, tag, data)
	if err != nil {
		if _, ok := errors.AsType[*msg.RemoteError](err); ok && kind == randomIgnored {
			return nil
		}
		return unlessEnded(ctx, err)
	}
	defer m.Free()
	if m.Tag() != tag+1 || !bytes.Equal(m.Bytes(), reversed(data)) {
		return fmt.Errorf("Call() = tag %d and %d bytes, want tag %d and %d bytes in reverse", m.Tag(), len(m.Bytes()), tag+1, len(data))
	}
	return nil
}

// lentAtRandom lends the two halves of mem. After the call they must not change.
func lentAtRandom(ctx context.Context, c *msg.Conn, tag uint64, mem []byte, mr *verbs.MR) error {
	if tag/randomKinds%2 == 0 {
		mr = nil
	}
	out, in := mem[:len(mem)/2], mem[len(mem)/2:][:len(mem)/2]
	want := pattern(int(tag), len(out))
	copy(out, want)
	clear(in)
	m, err := c.Do(ctx, &msg.Request{Tag: tag, Read: msg.Memory{Bytes: out, MR: mr}, Write: msg.Memory{Bytes: in, MR: mr}})
	if err == nil {
		m.Free()
		if !bytes.Equal(in, reversed(want)) {
			return fmt.Errorf("Do() has not written %d bytes in reverse", len(in))
		}
	}
	clear(mem)
	time.Sleep(100 * time.Microsecond)
	if n := bytes.Count(mem, []byte{0}); n != len(mem) {
		return fmt.Errorf("%d bytes were written after Do has returned %v", len(mem)-n, err)
	}
	return unlessEnded(ctx, err)
}

// unlessEnded returns nil if an error is the end of the context.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return nil
	}
	return err
}
