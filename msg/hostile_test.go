// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/inflight"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
	"purerdma/verbs"
)

// TestHelloRefused connects with wrong hellos.
func TestHelloRefused(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, msg.Options{})
	good := msg.Hello(4096, 8, 8)
	for _, tc := range []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"none", func([]byte) []byte { return nil }, "no hello"},
		{"short", func(b []byte) []byte { return b[:8] }, "slots of 0 bytes"}, // zeros follow it
		{"magic", func(b []byte) []byte { b[0]++; return b }, "no hello"},
		{"version", func(b []byte) []byte { b[4]++; return b }, "version 3"},
		{"slot", func(b []byte) []byte { b[8] = 0xff; return b }, "slots of"},
		{"window", func(b []byte) []byte { b[12] = 0xff; return b }, "credits"},
		{"no window", func(b []byte) []byte { b[13] = 0; return b }, "0 credits"},
		{"calls", func(b []byte) []byte { b[14] = 0xff; return b }, "calls"},
		{"no calls", func(b []byte) []byte { b[15] = 0; return b }, "0 calls"},
	} {
		_, err := streamconntest.DialRaw(t, k, ln.Addr().String(), tc.change(append([]byte(nil), good...)))
		rejected, ok := errors.AsType[*cm.RejectError](err)
		if !ok || !strings.Contains(string(rejected.PrivateData), tc.want) {
			t.Errorf("%s: Dial() = %v, want a rejection with %q", tc.name, err, tc.want)
		}
	}
}

// TestNoHelloInAcceptance connects to a listener that is not of package msg.
func TestNoHelloInAcceptance(t *testing.T) {
	k := streamconntest.RXE(t)
	to := streamconntest.ListenRaw(t, k)
	d := msg.Dialer{CM: cm.Dialer{Host: k.Host()}}
	_, err := d.Dial(streamconntest.Deadline(t), "tcp", to)
	if !errors.Is(err, syscall.EPROTO) {
		t.Errorf("Dial() = %v, want %v", err, syscall.EPROTO)
	}
}

// TestHelloInAcceptance connects to listeners with wrong hellos.
func TestHelloInAcceptance(t *testing.T) {
	k := streamconntest.RXE(t)
	good := msg.Hello(4096, 8, 8)
	for name, change := range map[string]func([]byte){
		"magic":      func(b []byte) { b[0]++ },
		"version":    func(b []byte) { b[4]++ },
		"slot":       func(b []byte) { b[8] = 0xff },
		"small slot": func(b []byte) { clear(b[8:12]) },
		"window":     func(b []byte) { b[12] = 0xff },
		"no window":  func(b []byte) { clear(b[12:14]) },
		"calls":      func(b []byte) { b[14] = 0xff },
		"no calls":   func(b []byte) { clear(b[14:]) },
	} {
		hello := append([]byte(nil), good...)
		change(hello)
		ln, accepted := listenRaw(t, k, hello)
		_, err := (&msg.Dialer{CM: cm.Dialer{Host: k.Host()}}).Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: Dial() = %v, want %v", name, err, syscall.EPROTO)
		}
		if conn := <-accepted; conn != nil {
			conn.Close()
		}
		ln.Close()
	}
}

// listenRaw accepts connections without package msg. hello is the private data of the acceptances. The caller takes
// the connections, and closes them and the listener.
func listenRaw(t testing.TB, k *cmtest.Kernel, hello []byte) (*cm.Listener, <-chan *cm.Conn) {
	t.Helper()
	ln, err := (&cm.ListenConfig{Host: k.Host(), Receive: &inflight.ReceiveConfig{Size: 64 << 10, Depth: 64}}).Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("cm.ListenConfig.Listen: %v", err)
	}
	accepted := make(chan *cm.Conn)
	go func() {
		defer close(accepted)
		for {
			req, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			if conn, err := req.Accept(context.Background(), nil, &cm.ConnParam{PrivateData: hello}); err == nil {
				accepted <- conn
			}
		}
	}()
	return ln, accepted
}

// first returns a valid first frame, changed by a function.
func first(kind uint8, data string, change func([]byte)) []byte {
	sent := uint32(0)
	if kind == msg.KindMessage || kind == msg.KindRequest {
		sent = 1
	}
	b := msg.Frame(kind, sent, 8, 0, 0, 0, []byte(data))
	if change != nil {
		change(b)
	}
	return b
}

// TestViolations sends wrong frames. Each ends its connection, and no other one.
func TestViolations(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, msg.Options{Window: 4, Calls: 4})
		honest := dial(t, k, msg.Options{}, ln)
		go serve(accept(t, ln))
		message := func(change func([]byte)) [][]byte { return [][]byte{first(msg.KindMessage, "data", change)} }
		for name, frames := range map[string][][]byte{
			"empty":                 {{}},
			"short":                 {make([]byte, msg.HeaderLen-1)},
			"kind":                  {msg.Frame(msg.Kinds, 0, 8, 0, 0, 0, nil)},
			"reserved":              message(func(b []byte) { b[2] = 1 }),
			"length":                message(func(b []byte) { b[7]++ }),
			"large length":          message(func(b []byte) { b[4] = 0xff }),
			"no credit used":        message(func(b []byte) { b[11] = 0 }),
			"two credits used":      message(func(b []byte) { b[11] = 2 }),
			"credits backwards":     message(func(b []byte) { b[15] = 7 }),
			"too many credits":      message(func(b []byte) { b[13] = 1 }),
			"call of a message":     message(func(b []byte) { b[19] = 1 }),
			"confirmed":             message(func(b []byte) { b[23] = 1 }),
			"no credit left":        {msg.Frame(1, 1, 8, 0, 0, 0, nil), msg.Frame(1, 2, 8, 0, 0, 0, nil), msg.Frame(1, 3, 8, 0, 0, 0, nil), msg.Frame(1, 4, 8, 0, 0, 0, nil), msg.Frame(1, 5, 8, 0, 0, 0, nil)},
			"credit for a grant":    {first(msg.KindCredit, "", func(b []byte) { b[11] = 1 })},
			"two grants":            {first(msg.KindCredit, "", nil), first(msg.KindCredit, "", nil)},
			"grant with data":       {first(msg.KindCredit, "x", nil)},
			"grant with a tag":      {first(msg.KindCredit, "", func(b []byte) { b[31] = 1 })},
			"number of a request":   {first(msg.KindRequest, "", func(b []byte) { b[18] = 1 })},
			"number in use":         {msg.Frame(msg.KindRequest, 1, 8, 3, 0, 0, nil), msg.Frame(msg.KindRequest, 2, 8, 3, 0, 0, nil)},
			"reply without a call":  {first(msg.KindReply, "", nil)},
			"failure of no call":    {first(msg.KindFailure, "", func(b []byte) { b[16] = 0xff })},
			"credit for a reply":    {first(msg.KindReply, "", func(b []byte) { b[11] = 1 })},
			"number of a cancel":    {first(msg.KindCancel, "", func(b []byte) { b[18] = 1 })},
			"cancel with data":      {first(msg.KindCancel, "x", nil)},
			"credit for a cancel":   {first(msg.KindCancel, "", func(b []byte) { b[11] = 1 })},
			"answer without cancel": {first(msg.KindCancelled, "", nil)},
			"part of no call":       {first(msg.KindPart, "", nil)},
			"parts of a message":    message(func(b []byte) { b[3] = 1 }),
			"lent by a message":     message(func(b []byte) { b[1] = msg.LentRead }),
			"unknown flag":          {msg.Lending(first(msg.KindRequest, lent(1, 1), nil), 4, 0)},
			"lent memory missing":   {msg.Lending(first(msg.KindRequest, lent(1, 1), nil), msg.LentRead|msg.LentWrite, 0)},
			"lends nothing":         {msg.Lending(first(msg.KindRequest, lent(1, 0), nil), msg.LentRead, 0)},
			"lends beyond the end":  {msg.Lending(first(msg.KindRequest, lent(math.MaxUint64, 2), nil), msg.LentWrite, 0)},
			"too many parts":        {msg.Lending(first(msg.KindRequest, "", nil), 0, 8)},
			"parts of a reply":      {msg.Lending(first(msg.KindReply, "", nil), 0, 1)},
			"number of more parts":  {first(msg.KindMore, "", func(b []byte) { b[18], b[31] = 1, 1 })},
			"more with data":        {first(msg.KindMore, "x", func(b []byte) { b[31] = 1 })},
			"credit for more":       {first(msg.KindMore, "", func(b []byte) { b[11], b[31] = 1, 1 })},
			"more than requested":   {msg.Lending(first(msg.KindRequest, "", nil), 0, 3), msg.Frame(msg.KindMore, 1, 8, 0, 0, 1, nil)},
			"no more":               {msg.Lending(first(msg.KindRequest, "", nil), 0, 3), msg.Frame(msg.KindMore, 1, 8, 0, 0, 0, nil)},
			"more of one reply":     {first(msg.KindRequest, "", nil), msg.Frame(msg.KindMore, 1, 8, 0, 0, 1, nil)},
			"answer without more":   {first(msg.KindMoreTaken, "", nil)},
			"answer with a call":    {first(msg.KindMoreTaken, "", func(b []byte) { b[19] = 1 })},
			"answer with a tag":     {first(msg.KindMoreTaken, "", func(b []byte) { b[31] = 1 })},
		} {
			raw, err := streamconntest.DialRaw(t, k, ln.Addr().String(), msg.Hello(4096, 8, 8))
			if err != nil {
				t.Fatalf("streamconntest.DialRaw: %v", err)
			}
			victim := accept(t, ln)
			for _, b := range frames {
				_ = streamconntest.SendRaw(t, raw, b) // the victim may have ended the connection
			}
			if err := receiveAll(t, victim); !errors.Is(err, syscall.EPROTO) {
				t.Errorf("%s: Receive() = %v, want %v", name, err, syscall.EPROTO)
			}
			if _, err := victim.Call(streamconntest.Deadline(t), 0, nil); !errors.Is(err, syscall.EPROTO) {
				t.Errorf("%s: Call() = %v, want %v", name, err, syscall.EPROTO)
			}
			closed(t, victim)
			raw.Close()
			check(t, streamconntest.Deadline(t), honest, 1, pattern(1, 100))
		}
	})
}

// lent encodes lent memory.
func lent(addr, length uint64) string {
	b, _ := verbs.RemoteMemory{Addr: addr, Length: length, RKey: 1}.MarshalBinary() // has no errors
	return string(b)
}

// receiveAll receives messages, keeps them until the end of the connection, and returns the error.
func receiveAll(t testing.TB, c *msg.Conn) error {
	t.Helper()
	for {
		m, err := c.Receive(streamconntest.Deadline(t))
		if err != nil {
			return err
		}
		defer m.Free()
	}
}

// TestWrongAnswers answers the calls of a client in wrong ways.
func TestWrongAnswers(t *testing.T) {
	k := streamconntest.MLX5(t)
	ln := listen(t, k, msg.Options{})
	for name, frames := range map[string][][]byte{
		"other call":  {msg.Frame(msg.KindReply, 0, 8, 1, 0, 0, nil)},
		"twice":       {msg.Frame(msg.KindReply, 0, 8, 0, 0, 0, nil), msg.Frame(msg.KindReply, 0, 8, 0, 0, 0, nil)},
		"fails twice": {msg.Frame(msg.KindFailure, 0, 8, 0, 0, 0, nil), msg.Frame(msg.KindReply, 0, 8, 0, 0, 0, nil)},
	} {
		raw, err := streamconntest.DialRaw(t, k, ln.Addr().String(), msg.Hello(4096, 8, 8))
		if err != nil {
			t.Fatalf("streamconntest.DialRaw: %v", err)
		}
		victim := accept(t, ln)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if m, err := victim.Call(streamconntest.Deadline(t), 0, nil); err == nil {
				defer m.Free()
			}
			if err := receiveAll(t, victim); !errors.Is(err, syscall.EPROTO) {
				t.Errorf("%s: Receive() = %v, want %v", name, err, syscall.EPROTO)
			}
		}()
		m, err := raw.Receive(streamconntest.Deadline(t))
		if err != nil {
			t.Fatalf("%s: Receive() of the request = %v", name, err)
		}
		m.Free()
		for _, b := range frames {
			_ = streamconntest.SendRaw(t, raw, b) // the victim may have ended the connection
		}
		<-done
		closed(t, victim)
		raw.Close()
	}
}

// TestWrongParts answers a stream of a client in wrong ways.
func TestWrongParts(t *testing.T) {
	k := streamconntest.MLX5(t)
	ln := listen(t, k, msg.Options{})
	part := msg.Frame(msg.KindPart, 0, 8, 0, 0, 0, nil)
	for name, frames := range map[string][][]byte{
		"too many":        {part, part, part},
		"after the reply": {part, msg.Frame(msg.KindReply, 0, 8, 0, 0, 0, nil), part},
		"other call":      {msg.Frame(msg.KindPart, 0, 8, 1, 0, 0, nil)},
	} {
		raw, err := streamconntest.DialRaw(t, k, ln.Addr().String(), msg.Hello(4096, 8, 8))
		if err != nil {
			t.Fatalf("streamconntest.DialRaw: %v", err)
		}
		victim := accept(t, ln)
		r, err := victim.Stream(streamconntest.Deadline(t), &msg.Request{Parts: 2})
		if err != nil {
			t.Fatalf("%s: Stream() = %v", name, err)
		}
		m, err := raw.Receive(streamconntest.Deadline(t))
		if err != nil {
			t.Fatalf("%s: Receive() of the request = %v", name, err)
		}
		m.Free()
		for _, b := range frames {
			_ = streamconntest.SendRaw(t, raw, b) // the victim may have ended the connection
		}
		if err := receiveAll(t, victim); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: Receive() = %v, want %v", name, err, syscall.EPROTO)
		}
		var replies []*msg.Message
		for err = nil; err == nil; {
			if m, err := r.Next(streamconntest.Deadline(t)); err == nil {
				replies = append(replies, m)
			} else {
				break
			}
		}
		for _, m := range replies {
			m.Free()
		}
		if want := min(len(frames)-1, 2); len(replies) != want {
			t.Errorf("%s: Next() has returned %d replies, want %d", name, len(replies), want)
		}
		closed(t, victim)
		raw.Close()
	}
}

// FuzzPeer has a server answer what a peer sends in frames of its choice, and call that peer.
func FuzzPeer(f *testing.F) {
	k := streamconntest.RXE(f)
	ln := listen(f, k, fuzzOptions)
	honest := fuzzHonest(f, k)
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		raw, err := streamconntest.DialRaw(t, k, ln.Addr().String(), fuzzHello)
		if err != nil {
			t.Fatalf("streamconntest.DialRaw: %v", err)
		}
		attack(t, raw, accept(t, ln), script)
		check(t, streamconntest.Deadline(t), honest, 1, pattern(1, 100))
	})
}

// FuzzDialer is FuzzPeer with a peer that listens.
func FuzzDialer(f *testing.F) {
	k := streamconntest.RXE(f)
	ln, accepted := listenRaw(f, k, fuzzHello)
	f.Cleanup(func() { ln.Close() })
	honest := fuzzHonest(f, k)
	fuzzSeeds(f)
	d := msg.Dialer{Options: fuzzOptions, CM: cm.Dialer{Host: k.Host()}}
	f.Fuzz(func(t *testing.T, script []byte) {
		victim, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial() = %v", err)
		}
		attack(t, <-accepted, victim, script)
		check(t, streamconntest.Deadline(t), honest, 1, pattern(1, 100))
	})
}

// Both sides of the connections of fuzz tests.
var (
	fuzzOptions = msg.Options{Slot: 512, Window: 6, Calls: 2}
	fuzzHello   = msg.Hello(256, 3, 4)
)

// fuzzHonest returns a connection to a server that answers calls.
func fuzzHonest(f *testing.F, k *cmtest.Kernel) *msg.Conn {
	f.Helper()
	c, s := pair(f, k, ends{})
	go serve(s)
	return c
}

// fuzzSeeds adds scripts of attack.
func fuzzSeeds(f *testing.F) {
	f.Add([]byte{2, 1, 0, 0, 0, 9, 0, 0, 0, 1, 1, 1, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{2, 1, 0, 0, 0, 60, 9, 0x60, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0x20, 7, 0, 0, 0, 0, 0, 0, 0, 0})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := make([]byte, 90)
		for i := range b {
			b[i] = byte(rng.IntN(6))
		}
		f.Add(b)
	}
}

// attack sends the frames of a script to a side that serves and makes calls, and closes both sides.
func attack(t *testing.T, raw *cm.Conn, victim *msg.Conn, script []byte) {
	t.Helper()
	raw.HandleMessages(func(m *inflight.Message, err error) {
		if err == nil {
			m.Free()
		}
	})
	var using sync.WaitGroup
	using.Go(func() { serveAll(victim) })
	using.Go(func() {
		for i := 0; ; i++ {
			if err := callInTurn(victim, i); err != nil {
				if _, ok := errors.AsType[*msg.RemoteError](err); !ok {
					return
				}
			}
		}
	})
	sent, granted, confirmed := uint32(0), uint32(3), uint32(0)
	for len(script) >= 9 {
		c := script[:9]
		script = script[9:]
		sent += uint32(c[1])
		granted += uint32(int8(c[2]))
		confirmed += uint32(c[3])
		b := msg.Frame(c[0], sent, granted, uint32(c[4]), confirmed, uint64(c[8]>>4), make([]byte, c[5]))
		if msg.Lending(b, c[7]>>6, uint16(c[8]&15)); c[7]&32 != 0 && c[5] >= 40 {
			copy(b[msg.HeaderLen:], lent(uint64(c[7])<<20, uint64(c[6]))+lent(uint64(c[6])<<20, uint64(c[7])))
		}
		if c[6] > 200 {
			b[int(c[6])%len(b)] ^= c[6]
		}
		if streamconntest.SendRaw(t, raw, b) != nil {
			break
		}
	}
	raw.Close()
	using.Wait()
	closed(t, victim)
}

// serveAll answers requests, with parts and with transfers of all lent memory. It ends with the
// connection.
func serveAll(c *msg.Conn) {
	for {
		m, err := c.Receive(context.Background())
		if err != nil {
			return
		}
		go func() {
			defer m.Free()
			if !m.IsRequest() {
				return
			}
			b, err := c.Pool().Get(context.Background(), 256)
			if err != nil {
				return
			}
			defer b.Free()
			read, write := m.Lent()
			for range m.MaxParts() * 2 {
				if m.ReplyPart(m.Context(), 0, nil) != nil { // the peer has ended the call or the connection
					break
				}
			}
			_ = m.ReadLent(m.Context(), b.Slice(0, int(min(read.Length, 256))), 0)
			_ = m.WriteLent(m.Context(), b.Slice(0, int(min(write.Length, 256))), 0)
			_ = m.Reply(context.Background(), 0, nil)
		}()
	}
}

// callInTurn makes one call of several kinds.
func callInTurn(c *msg.Conn, i int) error {
	switch i % 3 {
	case 0:
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		r, err := c.Stream(ctx, &msg.Request{Parts: 1})
		if err != nil {
			return afterTimeout(c, err)
		}
		defer r.Close()
		m, err := r.Next(ctx)
		if err == nil {
			m.Free()
		}
		return afterTimeout(c, err)
	case 1:
		m, err := c.Do(context.Background(), &msg.Request{Read: msg.Memory{Bytes: make([]byte, 100)}})
		if err == nil {
			m.Free()
		}
		return err
	}
	m, err := c.Call(context.Background(), 0, nil)
	if err == nil {
		m.Free()
	}
	return err
}

// afterTimeout returns nil if an error is only the end of a context.
func afterTimeout(c *msg.Conn, err error) error {
	if err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) {
		return c.Err()
	}
	return err
}
