// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// fuzzOptions are the options of the attacked sides.
var fuzzOptions = rsocket.Options{SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 16, RecvQueue: 16, Maps: 2}

// scriptStep is the number of bytes of a step of a script.
const scriptStep = 4

// addScripts adds scripts to a fuzz test. Each begins with two bytes for the private data.
func addScripts(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		b := make([]byte, 2+scriptStep*(1+rng.IntN(12)))
		for i := range b {
			b[i] = byte(rng.IntN(1 + 255>>rng.IntN(8)))
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 100, 0, 3, 0, 200, 1}) // data and new memory
}

// change changes a byte of private data, as a script requests it. Half of the scripts change nothing.
func change(data, script []byte) {
	if len(script) >= 2 && script[0]&1 != 0 {
		data[int(script[0]>>1)%len(data)] ^= script[1]
	}
}

// runScript sends the messages of a script, with writes to the memory of the other side.
func (p *rawPeer) runScript(script []byte) {
	p.t.Helper()
	for script = script[min(2, len(script)):]; len(script) >= scriptStep; script = script[scriptStep:] {
		a, b := script[1], script[2]
		wr := verbs.SendWR{Opcode: verbs.OpWriteImm, Flags: verbs.SendSignaled}
		switch script[0] % 6 {
		case 0: // data in the receive buffer
			wr.ImmData = uint32(a) << (script[3] % 16)
			wr.RemoteAddr, wr.RKey = binary.BigEndian.Uint64(p.peer[24:])+uint64(b), binary.BigEndian.Uint32(p.peer[32:])
			wr.InlineData = make([]byte, a%60)
		case 1: // an entry of the SGL
			entry := make([]byte, 16)
			binary.LittleEndian.PutUint64(entry, p.mem.Addr()+rawBuffer+uint64(int8(a)))
			binary.LittleEndian.PutUint32(entry[8:], p.mem.RKey()+uint32(script[3]&1))
			binary.LittleEndian.PutUint32(entry[12:], uint32(b)<<(a%25))
			wr.ImmData = 4<<29 | uint32(script[3])
			wr.RemoteAddr, wr.RKey = binary.BigEndian.Uint64(p.peer[8:])+16*uint64(script[3]&1), binary.BigEndian.Uint32(p.peer[16:])
			wr.InlineData = entry
		case 2: // an entry of the list of mappings
			entry := make([]byte, 24)
			entry[0], entry[8+int(a)%16] = script[3], b
			wr.ImmData = 6<<29 | uint32(a%4)
			wr.RemoteAddr, wr.RKey = binary.BigEndian.Uint64(p.peer[8:])+32+24*uint64(a%2), binary.BigEndian.Uint32(p.peer[16:])
			wr.InlineData = entry
		case 3: // credits or control
			wr.ImmData = uint32(4+3*(a&1))<<29 | uint32(b)
		case 4: // any message
			wr.ImmData = binary.BigEndian.Uint32(script)
		case 5: // a message without immediate data
			wr.Opcode = verbs.OpSend
			wr.InlineData = script[1:scriptStep]
		}
		if _, err := p.conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			return // the other side has ended the connection
		}
	}
}

// attack runs a script against a connection whose program echoes, and writes to the mappings of its peer.
func (p *rawPeer) attack(victim *rsocket.Conn, script []byte) {
	p.t.Helper()
	victim.SetDeadline(time.Now().Add(streamconntest.Limit))
	served := make(chan error)
	go func() {
		_, err := io.Copy(victim, streamconntest.OnlyReader(victim))
		_, _ = victim.WriteAt([]byte("direct"), 1)
		served <- err
	}()
	p.runScript(script)
	p.conn.Close()
	if err := <-served; errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("Copy() = %v, want the end of the peer", err)
	}
	streamconntest.Abort(victim)
}

// honest makes a connection whose peer echoes.
func honest(f *testing.F, k *cmtest.Kernel) (c net.Conn, ln net.Listener) {
	f.Helper()
	lc := rsocket.ListenConfig{Options: fuzzOptions, CM: cm.ListenConfig{Host: k.Host()}}
	ln, err := lc.Listen(f.Context(), "tcp", server)
	if err != nil {
		f.Fatalf("Listen: %v", err)
	}
	f.Cleanup(func() { ln.Close() })
	d := rsocket.Dialer{CM: cm.Dialer{Host: k.Host()}}
	c, err = d.DialContext(f.Context(), "tcp", server)
	if err != nil {
		f.Fatalf("DialContext: %v", err)
	}
	f.Cleanup(func() { streamconntest.Abort(c.(*rsocket.Conn)) })
	s, err := ln.Accept()
	if err != nil {
		f.Fatalf("Accept: %v", err)
	}
	f.Cleanup(func() { streamconntest.Abort(s.(*rsocket.Conn)) })
	go io.Copy(s, streamconntest.OnlyReader(s))
	return c, ln
}

// pingPong sends a message to a peer that echoes, and checks the answer.
func pingPong(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetDeadline(time.Now().Add(streamconntest.Limit))
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatalf("Write: %v", err)
	}
	var b [4]byte
	if _, err := io.ReadFull(c, b[:]); err != nil || string(b[:]) != "ping" {
		t.Fatalf("echo = %q, %v, want %q", b[:], err, "ping")
	}
}

// FuzzPeer dials a listener with private data and messages from the fuzzing input. Another connection of the listener
// continues.
func FuzzPeer(f *testing.F) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	other, ln := honest(f, k)
	addScripts(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		accepted := make(chan *rsocket.Conn, 1)
		go func() {
			c, err := ln.Accept()
			if err != nil {
				t.Errorf("Accept: %v", err)
				close(accepted)
				return
			}
			accepted <- c.(*rsocket.Conn)
		}()
		p, err := tryDialRaw(t, k, 2, func(data []byte) {
			data[7] = 1 // mapping
			change(data, script)
		})
		if err != nil { // refused: the next connection is the accepted one
			p = dialRaw(t, k, 2)
		}
		if victim := <-accepted; victim != nil {
			p.attack(victim, script)
		}
		pingPong(t, other)
	})
}

// FuzzDialer accepts a connection with private data and messages from the fuzzing input. Another connection of the
// process continues.
func FuzzDialer(f *testing.F) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	other, _ := honest(f, k)
	raw, err := (&cm.ListenConfig{Host: k.Host(), KeepAlive: -1, QP: rawQP}).Listen(f.Context(), "tcp", "10.0.0.1:0")
	if err != nil {
		f.Fatalf("cm.ListenConfig.Listen: %v", err)
	}
	f.Cleanup(func() { raw.Close() })
	d := rsocket.Dialer{Options: fuzzOptions, CM: cm.Dialer{Host: k.Host()}}
	addScripts(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		dialed := make(chan net.Conn, 1)
		go func() {
			c, err := d.DialContext(streamconntest.Deadline(t), "tcp", raw.Addr().String())
			if _, ok := err.(*net.OpError); err != nil && !ok {
				t.Errorf("DialContext = %v, want a *net.OpError", err)
			}
			dialed <- c
		}()
		req, err := raw.Accept(streamconntest.Deadline(t))
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		p := newRawPeer(t, req)
		data := rawData(p.mem, 2)
		change(data, script)
		p.peer = req.PrivateData()
		if p.conn, err = req.Accept(streamconntest.Deadline(t), nil, &cm.ConnParam{PrivateData: data}); err != nil {
			t.Fatalf("req.Accept: %v", err)
		}
		if victim := <-dialed; victim != nil {
			p.attack(victim.(*rsocket.Conn), script)
		}
		p.conn.Close()
		pingPong(t, other)
	})
}
