// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"context"
	"testing"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
	"purerdma/verbs"
)

// Sizes of the memory of TestForgedTokens. The middle of it is lent.
const (
	forgedSize = 3000
	lentSize   = 1000
)

// TestForgedTokens uses lent memory with tokens that the peer has not made. Each costs its user the connection. The
// memory of the peer does not change, and the user gets none of its bytes. Other connections of both sides go on.
func TestForgedTokens(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, msg.Options{})
		honest, server := dial(t, k, msg.Options{}, ln), accept(t, ln)
		ctx := streamconntest.Deadline(t)
		other := lendMiddle(t, ctx, honest, verbs.RemoteRead|verbs.RemoteWrite, false)
		go serveLent(server)
		both := verbs.RemoteRead | verbs.RemoteWrite
		for name, tc := range map[string]struct {
			lent  verbs.Access
			forge func(msg.Token) msg.Token
			write bool
		}{
			"write to memory for reading":  {verbs.RemoteRead, func(l msg.Token) msg.Token { l.Access = both; return l }, true},
			"read of memory for writing":   {verbs.RemoteWrite, func(l msg.Token) msg.Token { l.Access = both; return l }, false},
			"read beyond the end":          {both, func(l msg.Token) msg.Token { l.Length++; return l }, false},
			"write beyond the end":         {both, func(l msg.Token) msg.Token { l.Length++; return l }, true},
			"read before the start":        {both, func(l msg.Token) msg.Token { l.Addr--; return l }, false},
			"write before the start":       {both, func(l msg.Token) msg.Token { l.Addr--; return l }, true},
			"read with another key":        {both, func(l msg.Token) msg.Token { l.RKey ^= 1 << 8; return l }, false},
			"write with another key":       {both, func(l msg.Token) msg.Token { l.RKey ^= 1; return l }, true},
			"read of another connection":   {both, func(msg.Token) msg.Token { return other.token }, false},
			"write of another connection":  {both, func(msg.Token) msg.Token { return other.token }, true},
			"read of everything":           {both, func(l msg.Token) msg.Token { l.Addr, l.Length = 0, 1<<63; return l }, false},
			"write with the number of all": {both, func(l msg.Token) msg.Token { l.RKey = 0; return l }, true},
		} {
			for _, window := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					c, s := dial(t, k, msg.Options{}, ln), accept(t, ln)
					mine := lendMiddle(t, ctx, c, tc.lent, window)
					token := tc.forge(mine.token)
					n := int(min(token.Length, forgedSize))
					b, err := s.Pool().Get(ctx, n)
					if err != nil {
						t.Fatalf("Get() = %v", err)
					}
					defer b.Free()
					before := pattern(9, n)
					copy(b.Bytes(), before)
					use := s.Read
					if tc.write {
						use = s.Write
					}
					if err := use(ctx, b.SGE(), token); err == nil {
						t.Errorf("use of a forged token, window %v, = nil, want an error", window)
					}
					if !bytes.Equal(b.Bytes(), before) {
						t.Errorf("use of a forged token, window %v, has returned bytes of the peer", window)
					}
					for _, x := range []*msg.Conn{c, s} {
						if _, err := x.Receive(ctx); err == nil || ctx.Err() != nil {
							t.Errorf("Receive() after the use of a forged token = %v, want the end of the connection", err)
						}
					}
					for _, l := range []*middle{mine, other} {
						if !bytes.Equal(l.mem, pattern(5, forgedSize)) {
							t.Errorf("use of a forged token, window %v, has changed memory of the peer", window)
						}
					}
					exchange(t, ctx, honest, 1, 10_000, nil)
				})
			}
		}
	})
}

// middle is memory whose middle is lent.
type middle struct {
	mem   []byte
	token msg.Token
}

// lendMiddle lends the middle of some memory until the end of the test.
func lendMiddle(t *testing.T, ctx context.Context, c *msg.Conn, access verbs.Access, window bool) *middle {
	t.Helper()
	mem := msg.Memory{Bytes: make([]byte, forgedSize)}
	if window {
		mem.MR = windowMR(t, c, forgedSize)
		mem.Bytes = mem.MR.Bytes()
	}
	copy(mem.Bytes, pattern(5, forgedSize))
	all := mem.Bytes
	mem.Bytes = all[lentSize:][:lentSize]
	l, err := c.Lend(ctx, mem, access)
	if err != nil {
		t.Fatalf("Lend() = %v", err)
	}
	return &middle{all, l.Token()}
}
