// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/oob"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// FuzzMessage checks the limits of an accepted plan for any message. Memory and queues can be
// created for it, and an accepted size fits into them.
func FuzzMessage(f *testing.F) {
	sane := plan{Test: "send_bw", Connection: "RC", Max: 8, QPs: 1, Depth: 16, List: 1}
	for _, change := range []func(*plan, *message){
		func(*plan, *message) {},
		func(p *plan, _ *message) { p.Max, p.QPs = math.MaxInt, math.MaxInt },
		func(p *plan, _ *message) { p.Max, p.QPs = maxSize, maxQPs },
		func(p *plan, _ *message) { p.QPs = -1 },
		func(p *plan, _ *message) { p.Depth, p.List, p.Moderation = math.MaxInt, math.MaxInt, math.MinInt },
		func(p *plan, _ *message) { p.MTU, p.RdAtomic, p.Timeout, p.Inline = -1, -1, -1, -1 },
		func(p *plan, m *message) { p.Test, m.Size = "atomic_bw", 1 },
		func(p *plan, m *message) { p.Test, p.Connection, m.Size = "write_lat", "UC", 8 },
		func(_ *plan, m *message) {
			m.Memory, m.Size = verbs.RemoteMemory{Addr: math.MaxUint64, Length: math.MaxUint64, RKey: math.MaxUint32}, math.MaxInt
		},
		func(_ *plan, m *message) { m.Error = "\x1b[2J" },
	} {
		p := sane
		m := message{Plan: &p, Size: 1}
		change(&p, &m)
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatalf("json.Marshal: %v", err)
		}
		f.Add(b)
	}
	for _, s := range []string{"", "null", "[]", "{", `{"Size":1e99}`, `{"Plan":{"qps":"7"}}`, strings.Repeat("[", maxMessage), "\x00\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil || m.Plan == nil {
			return
		}
		p := *m.Plan
		if p.understand() != nil || p.check() != nil {
			return
		}
		last := p.QPs - 1
		if p.QPs < 1 || p.QPs > maxQPs || p.Depth < 1 || p.Depth > maxDepth || p.memory() > maxMemory || p.moderation() < 1 || p.moderation() > p.Depth ||
			p.head()+p.Max > p.stride() || int64(p.incoming(last)+p.stride()) > p.memory() {
			t.Fatalf("check accepts the plan %+v", p)
		}
		if p.checkSize(m.Size) == nil && (m.Size < 1 || m.Size > p.Max || p.kind.Op == "atomic" && m.Size != atomicSize) {
			t.Fatalf("checkSize accepts %d bytes with the plan %+v", m.Size, p)
		}
	})
}

// hostile is a client over TCP that sends arbitrary messages to a server on a fake kernel in
// memory.
type hostile struct {
	t     *testing.T
	way   *tcpControl
	ended <-chan error
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	so, err := parse([]string{"-p", "0", "-d", "rxe0", "-x", "0"}, io.Discard)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	so.host = &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0")}
	at, ended := make(chan int, 1), make(chan error, 1)
	go func() { ended <- serve(t.Context(), so, func(_ string, port int) { at <- port }) }()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(<-at)))
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	way := newTCPControl(conn)
	t.Cleanup(way.close)
	return &hostile{t, way, ended}
}

func (h *hostile) request(m message) message {
	h.t.Helper()
	answer, err := request(h.t.Context(), h.way, m)
	if err != nil {
		h.t.Fatalf("request: %v", err)
	}
	return answer
}

// refused waits until the server has ended with an error that contains want. It checks that the
// client receives that error.
func (h *hostile) refused(want string) {
	h.t.Helper()
	select {
	case err := <-h.ended:
		if err == nil || !strings.Contains(err.Error(), want) {
			h.t.Errorf("serve = %v, want %q", err, want)
		}
	case <-time.After(2 * settleTime):
		h.t.Fatal("serve has not returned")
	}
	if _, err := h.way.receive(h.t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		h.t.Errorf("the client receives the error %v, want %q", err, want)
	}
}

// TestHostileClients runs clients that have a valid plan and then violate the protocol.
func TestHostileClients(t *testing.T) {
	lends := message{Memory: verbs.RemoteMemory{Length: 8192}}
	for _, tc := range []struct {
		name string
		test string
		qp   *oob.Address // nil: a valid one
		then []message    // the last one is invalid
		want string
	}{
		{"no QP", "send_bw", new(oob.Address), nil, ""},
		{"a number of a QP that has 25 bits", "send_bw", &oob.Address{QPN: max24 + 1}, nil, "no QP"},
		{"the highest numbers of all", "send_bw", &oob.Address{QPN: math.MaxUint32, PSN: math.MaxUint32, LID: math.MaxUint16}, nil, "no QP"},
		{"a negative size", "send_bw", nil, []message{lends, {Size: -1}}, "size -1: want 1 to 8"},
		{"a size beyond the plan's", "write_bw", nil, []message{lends, {Size: 9}}, "size 9: want 1 to 8"},
		{"a huge size", "read_bw", nil, []message{lends, {Size: math.MaxInt}}, "want 1 to 8"},
		{"atomics of a byte", "atomic_bw", nil, []message{lends, {Size: 1}}, "atomics have 8 bytes"},
		{"nothing sent", "send_bw", nil, []message{lends, {Size: 8}, {}}, "has sent nothing"},
		{"more added than was", "atomic_bw", nil, []message{lends, {Size: 8}, {Sent: math.MaxUint64}}, "atomics have added 0"},
		{"too little memory", "write_lat", nil, []message{{Memory: verbs.RemoteMemory{Length: 4095}}}, "memory has 4095 bytes, want 8192"},
		{"another plan", "send_bw", nil, []message{lends, {Size: 8}, {Plan: &plan{}}}, "has sent nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			mine := h.request(message{Plan: &plan{Test: tc.test, Connection: "RC", Max: 8, QPs: 1, Depth: 16, List: 1}})
			if mine.Plan == nil || mine.Memory.RKey == 0 {
				t.Fatalf("the server's answer is %+v, want a plan and memory", mine)
			}
			qp := tc.qp
			if qp == nil {
				qp = &oob.Address{QPN: 17, PSN: 1, GID: verbs.GID{15: 1}}
			}
			messages := append([]message{{QP: qp}}, tc.then...)
			for _, m := range messages[:len(messages)-1] {
				h.request(m)
			}
			if tc.want == "" { // the server cannot detect that there is no such QP
				h.request(messages[len(messages)-1])
				h.way.close()
				if err := <-h.ended; err == nil {
					t.Error("serve = nil, want an error")
				}
				return
			}
			if err := h.way.send(t.Context(), messages[len(messages)-1]); err != nil {
				t.Fatalf("h.way.send: %v", err)
			}
			h.refused(tc.want)
		})
	}
}

// TestEndlessMessage checks that a line without an end is not buffered.
func TestEndlessMessage(t *testing.T) {
	l, r := net.Pipe()
	c := newTCPControl(l)
	defer c.close()
	go func() {
		for _, err := io.WriteString(r, "x"); err == nil; {
			_, err = io.WriteString(r, strings.Repeat("x", 1<<16))
		}
	}()
	if _, err := c.receive(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 4096 bytes") {
		t.Errorf("receive of a line without an end = %v, want an error", err)
	}
}

// TestTCPStrangers checks a server that is waiting for its client. Connections without a plan
// neither end it nor block the client.
func TestTCPStrangers(t *testing.T) {
	so, err := parse([]string{"-p", "0", "-d", "rxe0", "-x", "0"}, io.Discard)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	so.host = &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0", "rxe1")}
	at, ended := make(chan int, 1), make(chan error, 1)
	go func() { ended <- serve(t.Context(), so, func(_ string, port int) { at <- port }) }()
	port := strconv.Itoa(<-at)
	for _, says := range []string{"", "{\"Size\":", "GET / HTTP/1.1\r\n\r\n", "{\"Size\":1}\n", "{\"Error\":\"no\"}\n", strings.Repeat("x", 2*maxMessage)} {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		defer conn.Close()
		io.WriteString(conn, says)
		if strings.HasSuffix(says, "\n") {
			// The server has closed it before the client connects.
			if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read after sending %q = %v, want EOF or ECONNRESET", says, err)
			}
		}
	}
	o, err := parse([]string{"send_bw", "-n", "10", "-s", "8", "-p", port, "-d", "rxe1", "-x", "0", "127.0.0.1"}, io.Discard)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	o.host = so.host
	err = measure(t.Context(), o, func(*end) {}, func(result) error { return nil })
	if serr := <-ended; err != nil || serr != nil {
		t.Errorf("measure = %v, serve = %v, want nil", err, serr)
	}
}

// chunks is a connection that returns bytes in pieces of a given length.
type chunks struct {
	net.Conn
	b []byte
	n int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.n)], c.b)
	c.b = c.b[n:]
	return n, nil
}

func (*chunks) Close() error { return nil }

// FuzzTCPControl reads messages from arbitrary bytes in pieces of any length. It checks that
// whole lines arrive in order until a line is too long or the input ends.
func FuzzTCPControl(f *testing.F) {
	f.Add([]byte("{\"Plan\":{}}\n{\"Size\":1}\n{\"Sent\":7}\n"), uint8(3))
	f.Add([]byte("\n\n{}\n{"), uint8(0))
	f.Add([]byte(strings.Repeat("x", maxMessage-1)+"\n"+strings.Repeat("y", maxMessage)+"\n"), uint8(255))
	f.Add([]byte("{\"Error\":\"no\"}\nnull\n"), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		var c *tcpControl
		conn := &chunks{b: b, n: int(n) + 1}
		if n%2 == 0 {
			c = newTCPControl(conn)
		} else if start, err := readPlan(conn); err != nil {
			return
		} else {
			c = startTCPControl(conn, start.r, start.line)
		}
		defer c.close()
		for rest := b; ; {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole || len(line) >= maxMessage {
				if m, err := c.receive(t.Context()); err == nil {
					t.Fatalf("receive = %+v after the last message of %q, want an error", m, b)
				}
				<-c.done()
				return
			}
			want, werr := decode(rest[:len(line)+1])
			m, err := c.receive(t.Context())
			if !reflect.DeepEqual(m, want) || (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() {
				t.Fatalf("receive of %q = %+v, %v, want %+v, %v", line, m, err, want, werr)
			}
			rest = after
		}
	})
}
