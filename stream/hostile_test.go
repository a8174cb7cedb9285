// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// TestHelloRefused connects with wrong hellos.
func TestHelloRefused(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, ends{})
	good := stream.Hello(0, 4096, 8)
	for _, tc := range []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"none", func([]byte) []byte { return nil }, "no hello"},
		{"short", func(b []byte) []byte { return b[:6] }, "credits"}, // zeros follow it
		{"magic", func(b []byte) []byte { b[0]++; return b }, "no hello"},
		{"version", func(b []byte) []byte { b[4]++; return b }, "version 2"},
		{"slot", func(b []byte) []byte { b[8] = 0xff; return b }, "slots of"},
		{"credits", func(b []byte) []byte { b[12] = 0xff; return b }, "credits"},
		{"few credits", func(b []byte) []byte { b[15] = 2; return b }, "credits"},
	} {
		_, err := streamconntest.DialRaw(t, k, ln.Addr().String(), tc.change(append([]byte(nil), good...)))
		rejected, ok := errors.AsType[*cm.RejectError](err)
		if !ok || tc.name != "short" && !strings.Contains(rejected.Error(), tc.want) {
			t.Errorf("%s: Dial = %v, want a rejection with %q", tc.name, err, tc.want)
		}
	}
}

// TestNoHelloInAcceptance connects to a listener that is not of package stream.
func TestNoHelloInAcceptance(t *testing.T) {
	k := streamconntest.RXE(t)
	to := streamconntest.ListenRaw(t, k)
	d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
	_, err := d.DialContext(streamconntest.Deadline(t), "tcp", to)
	if !errors.Is(err, syscall.EPROTO) {
		t.Errorf("DialContext = %v, want %v", err, syscall.EPROTO)
	}
}

// TestBadHelloInAcceptance connects to listeners whose hello is wrong.
func TestBadHelloInAcceptance(t *testing.T) {
	k := streamconntest.RXE(t)
	for name, change := range map[string]func([]byte){
		"version":     func(b []byte) { b[4]++ },
		"slots of":    func(b []byte) { b[8] = 0xff },
		"credits":     func(b []byte) { b[12] = 0xff },
		"2 credits":   func(b []byte) { b[15] = stream.BaseWindow - 1 },
		"slots of 16": func(b []byte) { b[10], b[11] = 0, 16 },
	} {
		b := stream.Hello(0, 4096, 8)
		change(b)
		d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
		_, err := d.DialContext(streamconntest.Deadline(t), "tcp", streamconntest.AnswerRaw(t, k, b))
		if _, ok := err.(*net.OpError); !ok || !errors.Is(err, syscall.EPROTO) || !strings.Contains(err.Error(), name) {
			t.Errorf("DialContext = %v, want a *net.OpError with %v and %q", err, syscall.EPROTO, name)
		}
	}
}

// TestViolations sends frames that violate the protocol, each on a connection of its own. That connection
// fails, and another connection of the listener continues.
func TestViolations(t *testing.T) {
	k := streamconntest.MLX5(t)
	ln := listen(t, k, ends{listen: stream.Options{Window: 8}})
	honest := dial(t, k, stream.Options{}, ln)
	echo := accept(t, ln)
	go io.Copy(echo, streamconntest.OnlyReader(echo))
	data := []byte("data")
	wrong := func(change func([]byte)) []byte {
		b := stream.Frame(0, 1, 8, data)
		change(b)
		return b
	}
	for name, frames := range map[string][][]byte{
		"empty":              {{}},
		"short":              {make([]byte, 15)},
		"flags":              {wrong(func(b []byte) { b[0] = 0x80 })},
		"reserved":           {wrong(func(b []byte) { b[2] = 1 })},
		"length":             {wrong(func(b []byte) { b[7]++ })},
		"large length":       {wrong(func(b []byte) { b[4] = 0xff })},
		"no credit used":     {stream.Frame(0, 0, 8, data)},
		"credit twice":       {stream.Frame(0, 1, 8, nil), stream.Frame(0, 1, 8, nil)},
		"no credit left":     {stream.Frame(0, 1000, 8, data)},
		"one frame too many": manyFrames(9, data), // 8 credits
		"credits backwards":  {stream.Frame(0, 1, 7, data)},
		"too many credits":   {stream.Frame(0, 1, 1<<20, data)},
		"returned too many":  {stream.Frame(0, 8, 8, data)},
		"data after the end": {stream.Frame(stream.FlagFIN, 1, 8, nil), stream.Frame(0, 2, 8, data)},
		"end twice":          {stream.Frame(stream.FlagFIN, 1, 8, nil), stream.Frame(stream.FlagFIN, 2, 8, nil)},
		"end confirmed":      {stream.Frame(stream.FlagFINAck, 1, 8, nil)},
	} {
		raw, err := streamconntest.DialRaw(t, k, ln.Addr().String(), stream.Hello(0, 4096, 8))
		if err != nil {
			t.Fatalf("streamconntest.DialRaw: %v", err)
		}
		victim := accept(t, ln)
		for _, b := range frames {
			_ = streamconntest.SendRaw(t, raw, b) // the victim may have ended the connection
		}
		victim.SetDeadline(time.Now().Add(streamconntest.Limit))
		for n := 1; err == nil; {
			if n, err = victim.Write(make([]byte, 1)); n == 1 {
				time.Sleep(time.Millisecond)
			}
		}
		if !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: Write = %v, want %v", name, err, syscall.EPROTO)
		}
		streamconntest.Abort(victim)
		raw.Close()
		pingPong(t, honest)
	}
}

// manyFrames returns n frames with data.
func manyFrames(n int, data []byte) (frames [][]byte) {
	for sent := range n {
		frames = append(frames, stream.Frame(0, uint32(sent+1), 8, data))
	}
	return frames
}

// pingPong sends a message to a peer that echoes, and checks the answer.
func pingPong(t testing.TB, c net.Conn) {
	t.Helper()
	c.SetDeadline(time.Now().Add(streamconntest.Limit))
	c.Write([]byte("ping"))
	var b [4]byte
	if _, err := io.ReadFull(c, b[:]); err != nil || string(b[:]) != "ping" {
		t.Fatalf("echo = %q, %v, want %q", b[:], err, "ping")
	}
}

// TestOverrun sends without credits to a connection whose program does not read. Other connections on the
// same receives continue.
func TestOverrun(t *testing.T) {
	k := streamconntest.MLX5(t)
	lc := stream.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}
	ln, err := lc.Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("lc.Listen: %v", err)
	}
	defer ln.Close()
	d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
	honest, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("d.DialContext: %v", err)
	}
	defer streamconntest.Abort(honest.(*stream.Conn))
	echo := accept(t, ln)
	go io.Copy(echo, streamconntest.OnlyReader(echo))
	for range 5 {
		raw, err := streamconntest.DialRaw(t, k, ln.Addr().String(), stream.Hello(0, 4096, 8))
		if err != nil {
			t.Fatalf("streamconntest.DialRaw: %v", err)
		}
		victim := accept(t, ln)
		for sent := uint32(1); streamconntest.SendRaw(t, raw, stream.Frame(0, sent, 8, make([]byte, 1000))) == nil; sent++ {
			if sent > 10_000 {
				t.Fatal("a peer may send without credits")
			}
		}
		streamconntest.Abort(victim)
		raw.Close()
		pingPong(t, honest)
	}
}
