// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
	"purerdma/verbs"
)

// rawPeer is a peer without package rsocket. The test writes its messages.
type rawPeer struct {
	t    *testing.T
	conn *cm.Conn
	mem  *verbs.MR // an SGL of two entries at the start, and a buffer behind it
	peer []byte    // the other side's private data
}

const (
	rawBuffer  = 128 // offset of the buffer, behind the SGL and mappings
	rawHalf    = 4096
	rawCredits = 20
)

// rawData returns private data with the given flags for the memory of a raw peer.
func rawData(mr *verbs.MR, flags byte) []byte {
	b := make([]byte, 40)
	b[0], b[1] = 1, flags
	binary.BigEndian.PutUint16(b[2:], rawCredits)
	binary.BigEndian.PutUint64(b[8:], mr.Addr())
	binary.BigEndian.PutUint32(b[16:], mr.RKey())
	binary.BigEndian.PutUint32(b[20:], 2)
	binary.BigEndian.PutUint64(b[24:], mr.Addr()+rawBuffer)
	binary.BigEndian.PutUint32(b[32:], mr.RKey())
	binary.BigEndian.PutUint32(b[36:], rawHalf)
	return b
}

// dialRaw connects a raw peer.
func dialRaw(t *testing.T, k *cmtest.Kernel, flags byte) *rawPeer {
	t.Helper()
	return dialRawMaps(t, k, flags, 0)
}

// dialRawMaps connects a raw peer that takes a number of mappings.
func dialRawMaps(t *testing.T, k *cmtest.Kernel, flags, maps byte) *rawPeer {
	t.Helper()
	return dialRawData(t, k, flags, func(data []byte) { data[7] = maps })
}

// dialRawData connects a raw peer with changed private data.
func dialRawData(t *testing.T, k *cmtest.Kernel, flags byte, change func(data []byte)) *rawPeer {
	t.Helper()
	p, err := tryDialRaw(t, k, flags, change)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	return p
}

// rawQP configures the QP of a raw peer.
var rawQP = verbs.QPConfig{Cap: verbs.QPCap{SendWR: 1000, RecvWR: 100, SendSGE: 1, RecvSGE: 1, Inline: 64}}

// tryDialRaw is dialRawData, and returns the error of the connect request.
func tryDialRaw(t *testing.T, k *cmtest.Kernel, flags byte, change func(data []byte)) (*rawPeer, error) {
	t.Helper()
	d := cm.Dialer{Host: k.Host(), KeepAlive: -1, QP: rawQP}
	r, err := d.Resolve(streamconntest.Deadline(t), "tcp", server)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	p := newRawPeer(t, r)
	data := rawData(p.mem, flags)
	change(data)
	if p.conn, err = r.Connect(streamconntest.Deadline(t), nil, &cm.ConnParam{PrivateData: data}); err != nil {
		return nil, err
	}
	t.Cleanup(func() { p.conn.Close() })
	p.peer = p.conn.PrivateData()
	return p, nil
}

// newRawPeer makes the memory of a raw peer, and posts its receives.
func newRawPeer(t *testing.T, c cm.PendingConn) *rawPeer {
	t.Helper()
	mr, err := c.Alloc(rawBuffer+2*rawHalf, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	for i := range 100 {
		if err := c.PostRecv(uint64(i)); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
	}
	return &rawPeer{t: t, mem: mr}
}

// send sends a message, with a WRITE of data to the other side's memory if there is any.
func (p *rawPeer) send(msg uint32, addr uint64, key uint32, data []byte) {
	p.t.Helper()
	wr := verbs.SendWR{Opcode: verbs.OpWriteImm, ImmData: msg, RemoteAddr: addr, RKey: key, Flags: verbs.SendSignaled}
	if len(data) > 0 {
		wr.InlineData = data
	}
	if _, err := p.conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		p.t.Fatalf("PostSend: %v", err)
	}
}

// data sends bytes at an offset of the other side's buffer.
func (p *rawPeer) data(at uint64, b []byte) {
	p.t.Helper()
	p.send(uint32(len(b)), binary.BigEndian.Uint64(p.peer[24:])+at, binary.BigEndian.Uint32(p.peer[32:]), b)
}

// recv returns the next message of the other side.
func (p *rawPeer) recv() uint32 {
	p.t.Helper()
	wc, err := p.conn.WaitRecv(streamconntest.Deadline(p.t))
	if err != nil {
		p.t.Fatalf("WaitRecv: %v", err)
	}
	return wc.ImmData
}

// TestByteOrders checks the entries that a peer gets in its SGL, in both byte orders, and the bytes
// of the stream in both directions.
func TestByteOrders(t *testing.T) {
	for name, tc := range map[string]struct {
		flags byte
		order binary.ByteOrder
	}{"little-endian": {2, binary.LittleEndian}, "big-endian": {3, binary.BigEndian}} {
		t.Run(name, func(t *testing.T) {
			k := streamconntest.RXE(t)
			ln := listen(t, k, rsocket.Options{})
			p := dialRaw(t, k, tc.flags)
			c := accept(t, ln)
			if got, want := p.recv(), uint32(4<<29|384); got != want {
				t.Fatalf("first message = %#x, want %#x", got, want)
			}
			base, key := binary.BigEndian.Uint64(p.peer[24:]), binary.BigEndian.Uint32(p.peer[32:])
			entry := p.mem.Bytes()[16:32] // the second one
			if addr, k, n := tc.order.Uint64(entry), tc.order.Uint32(entry[8:]), tc.order.Uint32(entry[12:]); addr != base+65536 || k != key || n != 65536 {
				t.Errorf("entry = %#x, %#x, %d, want %#x, %#x, 65536", addr, k, n, base+65536, key)
			}
			p.data(0, []byte("to Go"))
			got := make([]byte, 5)
			if _, err := io.ReadFull(c, got); string(got) != "to Go" || err != nil {
				t.Errorf("ReadFull() = %q, %v, want %q", got, err, "to Go")
			}
			c.Write([]byte("from Go"))
			if got := p.recv(); got != 7 {
				t.Errorf("message = %#x, want 7", got)
			}
			if got := string(p.mem.Bytes()[rawBuffer:][:7]); got != "from Go" {
				t.Errorf("received bytes = %q, want %q", got, "from Go")
			}
		})
	}
}

// TestHostilePeer violates the protocol in several ways. Each time the connection fails with
// EPROTO.
func TestHostilePeer(t *testing.T) {
	for name, attack := range map[string]func(p *rawPeer){
		"more than the buffer":   func(p *rawPeer) { p.send(1<<29-1, 0, 0, nil) },
		"more than granted":      func(p *rawPeer) { p.send(65536, 0, 0, nil); p.send(65536, 0, 0, nil); p.send(1, 0, 0, nil) },
		"more than the credits":  func(p *rawPeer) { flood(p, 400, 1) },
		"reserved operation 2":   func(p *rawPeer) { p.send(2<<29, 0, 0, nil) },
		"reserved operation 3":   func(p *rawPeer) { p.send(3<<29, 0, 0, nil) },
		"reserved operation 5":   func(p *rawPeer) { p.send(5<<29, 0, 0, nil) },
		"unknown control":        func(p *rawPeer) { p.send(7<<29|3, 0, 0, nil) },
		"mapping without a list": func(p *rawPeer) { p.send(6<<29, 0, 0, nil) },
		"data after shutdown":    func(p *rawPeer) { p.send(7<<29|2, 0, 0, nil); p.data(0, []byte("x")) },
		"message without immediate": func(p *rawPeer) {
			p.conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := streamconntest.RXE(t)
			ln := listen(t, k, rsocket.Options{})
			p := dialRaw(t, k, 2)
			c := accept(t, ln)
			c.SetDeadline(time.Now().Add(streamconntest.Limit))
			attack(p)
			// A violation after a shutdown shows in the other direction.
			err := error(nil)
			for err == nil {
				_, err = c.Write(make([]byte, 1000))
			}
			if !errors.Is(err, syscall.EPROTO) {
				t.Errorf("Write() = %v, want %v", err, syscall.EPROTO)
			}
			if wc, err := p.conn.WaitRecv(streamconntest.Deadline(t)); err == nil && wc.ImmData>>29 == 7 {
				t.Errorf("the violation is answered by %#x", wc.ImmData)
			}
		})
	}
}

// flood sends n messages of size bytes each.
func flood(p *rawPeer, n int, size uint32) {
	for range n {
		p.send(size, 0, 0, nil)
	}
}

// TestEmptyMessages sends many messages about 0 bytes. They use credits and no memory of the receive
// buffer.
func TestEmptyMessages(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, rsocket.Options{RecvQueue: 16})
	p := dialRaw(t, k, 2)
	c := accept(t, ln)
	flood(p, 100, 0)
	p.data(0, []byte("end"))
	c.SetDeadline(time.Now().Add(streamconntest.Limit))
	got := make([]byte, 3)
	if _, err := io.ReadFull(c, got); string(got) != "end" || err != nil {
		t.Errorf("ReadFull() = %q, %v, want %q", got, err, "end")
	}
}

// TestBadWindow announces memory that does not exist. Writes fail with the error of the device.
func TestBadWindow(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, rsocket.Options{})
	p := dialRaw(t, k, 2)
	c := accept(t, ln)
	c.SetDeadline(time.Now().Add(streamconntest.Limit))
	entry := make([]byte, 16)
	binary.LittleEndian.PutUint64(entry, ^uint64(0)-10)
	binary.LittleEndian.PutUint32(entry[8:], 0xffffffff)
	binary.LittleEndian.PutUint32(entry[12:], 0xffffffff)
	sgl := binary.BigEndian.Uint64(p.peer[8:])
	p.send(4<<29|1000, sgl+16, binary.BigEndian.Uint32(p.peer[16:]), entry)
	var err error
	for err == nil {
		_, err = c.Write(make([]byte, 1000)) // fills the good window first
	}
	if errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write() = %v, want the error of the device", err)
	}
}

// TestBadPrivateData dials with private data of another protocol. The listener refuses it with a
// reason, and continues.
func TestBadPrivateData(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, rsocket.Options{})
	d := cm.Dialer{Host: k.Host(), Param: &cm.ConnParam{PrivateData: []byte("hello")}}
	_, err := d.Dial(streamconntest.Deadline(t), "tcp", server)
	rejected, ok := errors.AsType[*cm.RejectError](err)
	if !ok || rejected.Reason != cm.RejectConsumer || len(rejected.PrivateData) == 0 {
		t.Errorf("Dial() = %v, want a rejection with a reason", err)
	}
	dialRaw(t, k, 2)
	accept(t, ln)
}

// TestBadAnswer dials a listener of another protocol.
func TestBadAnswer(t *testing.T) {
	k := streamconntest.RXE(t)
	ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	var other sync.WaitGroup
	defer other.Wait()
	defer ln.Close()
	other.Go(func() {
		req, err := ln.Accept(t.Context())
		if err != nil {
			return
		}
		if conn, err := req.Accept(t.Context(), nil, nil); err == nil {
			conn.Wait(t.Context())
			conn.Close()
		}
	})
	d := rsocket.Dialer{CM: cm.Dialer{Host: k.Host()}}
	if c, err := d.DialContext(streamconntest.Deadline(t), "tcp", server); err == nil {
		c.Close()
		t.Error("DialContext() of another protocol succeeded, want an error")
	}
}
