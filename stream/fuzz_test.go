// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/inflight"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
	"purerdma/uverbs/uverbstest"
)

// addScripts adds scripts to a fuzz test.
func addScripts(f *testing.F) {
	f.Add([]byte{8, 1, 4, 0, 3, 2, 0, 1, 1, 0})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := make([]byte, 60)
		for i := range b {
			b[i] = byte(rng.IntN(6))
		}
		f.Add(b)
	}
}

// scriptHello returns the hello of a script. The script continues with credits granted.
func scriptHello(script []byte) (hello []byte, granted uint32) {
	first := byte(0)
	if len(script) > 0 {
		first = script[0]
	}
	granted = 3 + uint32(first>>4)
	return stream.Hello(first&1, 256, int(granted)), granted
}

// runScript sends the frames of a script.
func runScript(t *testing.T, raw *cm.Conn, script []byte, granted uint32) {
	t.Helper()
	for sent := uint32(0); len(script) >= 5; script = script[5:] {
		c := script[:5]
		sent += uint32(c[1])
		granted += uint32(int8(c[2]))
		b := stream.Frame(c[0], sent, granted, make([]byte, c[3]))
		if c[4] > 200 {
			b[int(c[4])%len(b)] ^= c[4]
		}
		if streamconntest.SendRaw(t, raw, b) != nil {
			return
		}
	}
}

// echo sends the received bytes back, until the peer ends the connection.
func echo(t *testing.T, victim *stream.Conn) (done <-chan struct{}) {
	served := make(chan struct{})
	go func() {
		defer close(served)
		victim.SetDeadline(time.Now().Add(streamconntest.Limit))
		_, err := io.Copy(victim, streamconntest.OnlyReader(victim))
		if errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Copy = %v, want the end of the peer", err)
		}
	}()
	return served
}

// honest makes a connection to a listener whose peer echoes. It returns the other side.
func honest(f *testing.F, d *stream.Dialer, ln net.Listener) net.Conn {
	f.Helper()
	c, err := d.DialContext(f.Context(), "tcp", ln.Addr().String())
	if err != nil {
		f.Fatalf("DialContext: %v", err)
	}
	f.Cleanup(func() { streamconntest.Abort(c.(*stream.Conn)) })
	s := accept(f, ln)
	go io.Copy(s, streamconntest.OnlyReader(s))
	return c
}

// fuzzListen listens without a test's checks of the kernel, which a fuzz test lacks.
func fuzzListen(f *testing.F, k *cmtest.Kernel, o stream.Options) net.Listener {
	f.Helper()
	lc := stream.ListenConfig{Options: o, CM: cm.ListenConfig{Host: k.Host()}}
	ln, err := lc.Listen(f.Context(), "tcp", server)
	if err != nil {
		f.Fatalf("lc.Listen: %v", err)
	}
	f.Cleanup(func() { ln.Close() })
	return ln
}

// FuzzPeer sends frames from the fuzzing input to an echo server. Another connection of the server continues.
func FuzzPeer(f *testing.F) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	ln := fuzzListen(f, k, stream.Options{})
	other := honest(f, &stream.Dialer{CM: cm.Dialer{Host: k.Host()}}, ln)
	addScripts(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		hello, granted := scriptHello(script)
		raw, err := streamconntest.DialRaw(t, k, ln.Addr().String(), hello)
		if err != nil {
			t.Fatalf("streamconntest.DialRaw: %v", err)
		}
		victim := accept(t, ln)
		served := echo(t, victim)
		runScript(t, raw, script, granted)
		raw.Close()
		<-served
		streamconntest.Abort(victim)
		pingPong(t, other)
	})
}

// FuzzDialer accepts a connection with a hello and frames from the fuzzing input. Another connection that uses the
// Shared continues.
func FuzzDialer(f *testing.F) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	shared := stream.NewShared(stream.SharedConfig{Slot: 1024, Depth: 64})
	f.Cleanup(func() { shared.Close() })
	d := stream.Dialer{Options: stream.Options{Shared: shared}, CM: cm.Dialer{Host: k.Host()}}
	other := honest(f, &d, fuzzListen(f, k, stream.Options{}))
	raw, err := (&cm.ListenConfig{
		Host:    k.Host(),
		Receive: &inflight.ReceiveConfig{Size: 1024, Depth: 64},
	}).Listen(f.Context(), "tcp", server)
	if err != nil {
		f.Fatalf("cm.ListenConfig.Listen: %v", err)
	}
	f.Cleanup(func() { raw.Close() })
	addScripts(f)
	f.Add([]byte{0, 0, 0, 0, 210}) // a wrong hello
	f.Fuzz(func(t *testing.T, script []byte) {
		hello, granted := scriptHello(script)
		if len(script) >= 5 && script[4] > 200 {
			hello[int(script[4])%len(hello)] ^= script[3]
		}
		dialed := make(chan *stream.Conn, 1)
		go func() {
			defer close(dialed)
			c, err := d.DialContext(streamconntest.Deadline(t), "tcp", raw.Addr().String())
			switch {
			case err == nil:
				dialed <- c.(*stream.Conn)
			case !errors.Is(err, syscall.EPROTO):
				t.Errorf("DialContext = %v, want %v", err, syscall.EPROTO)
			}
		}()
		req, err := raw.Accept(streamconntest.Deadline(t))
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		conn, err := req.Accept(streamconntest.Deadline(t), nil, &cm.ConnParam{PrivateData: hello})
		if err != nil {
			t.Fatalf("req.Accept: %v", err)
		}
		victim := <-dialed
		if victim == nil {
			conn.Close()
			pingPong(t, other)
			return
		}
		served := echo(t, victim)
		runScript(t, conn, script, granted)
		conn.Close()
		<-served
		streamconntest.Abort(victim)
		pingPong(t, other)
	})
}
