// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// vmEnds returns a listener on the first host, and a dialer on the second.
func vmEnds(t *testing.T, o ends) (net.Listener, *stream.Dialer) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t)
	lc := stream.ListenConfig{Options: o.listen.WithoutRNR(), Private: o.private}
	ln, err := lc.Listen(t.Context(), "tcp", netip.AddrPortFrom(hosts[0].IPv4, 0).String())
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	local := cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))
	return ln, &stream.Dialer{Options: o.dial.WithoutRNR(), CM: cm.Dialer{LocalAddr: local}}
}

// TestVMTransfer sends data in both directions at a time.
func TestVMTransfer(t *testing.T) {
	for name, o := range map[string]ends{
		"shared":  {},
		"private": {private: true},
		"least":   {private: true, dial: stream.Options{Slot: 256, Window: 3}, listen: stream.Options{Slot: 256, Window: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			ln, d := vmEnds(t, o)
			size := int64(16 << 20)
			if name == "least" {
				size = 256 << 10
			}
			vmtest.OverRDMA(t, 2*size, func() {
				conn, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
				if err != nil {
					t.Fatalf("d.DialContext: %v", err)
				}
				c, s := conn.(*stream.Conn), accept(t, ln)
				defer streamconntest.Abort(c)
				streamconntest.Transfer(t, c, s, size)
			})
		})
	}
}

// TestVMPeerBreaks has peers violate the protocol. The error names the violation, and another connection of the listener
// continues.
func TestVMPeerBreaks(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	conn, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("d.DialContext: %v", err)
	}
	defer streamconntest.Abort(conn.(*stream.Conn))
	echo := accept(t, ln)
	go io.Copy(echo, streamconntest.OnlyReader(echo))
	raw := d.CM
	raw.Param = &cm.ConnParam{PrivateData: stream.Hello(0, 4096, 8)}
	raw.Receive = &inflight.ReceiveConfig{Size: stream.DefaultSlot}
	for name, b := range map[string][]byte{
		"no credit left":   stream.Frame(0, 1000, 8, []byte("data")),
		"too many credits": stream.Frame(0, 1, 1<<20, []byte("data")),
		"end confirmed":    stream.Frame(stream.FlagFINAck, 1, 8, nil),
	} {
		peer, err := raw.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("raw.Dial: %v", err)
		}
		victim := accept(t, ln)
		_ = streamconntest.SendRaw(t, peer, b) // the victim may have ended the connection
		victim.SetReadDeadline(time.Now().Add(streamconntest.Limit))
		if n, err := victim.Read(make([]byte, 1)); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: Read = %d, %v, want %v", name, n, err, syscall.EPROTO)
		}
		streamconntest.Abort(victim)
		peer.Close()
		pingPong(t, conn)
	}
}

// TestVMFairMemory transfers data on connections of a Shared while the peers of other connections take no data.
func TestVMFairMemory(t *testing.T) {
	o := ends{listen: hoardShared(t), dial: stream.Options{Window: 3}}
	ln, d := vmEnds(t, o)
	defer o.listen.Shared.Close() // before the check for leaks
	fairMemory(t, func() (w, peer *stream.Conn) {
		conn, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("d.DialContext: %v", err)
		}
		t.Cleanup(func() { streamconntest.Abort(conn.(*stream.Conn)) })
		return accept(t, ln), conn.(*stream.Conn)
	})
}

// TestVMCloseFullWindow closes both ends. One of them has ended its stream before, and has received as much as
// it takes. The other end waits for credits, also for its confirmation of the end.
func TestVMCloseFullWindow(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	for range 5 {
		conn, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("d.DialContext: %v", err)
		}
		writer, reader := conn.(*stream.Conn), accept(t, ln)
		if err := writer.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatalf("SetWriteDeadline: %v", err)
		}
		if n, err := writer.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Write to a peer that does not read = %d, %v, want a timeout", n, err)
		}
		if err := reader.CloseWrite(); err != nil {
			t.Fatalf("CloseWrite: %v", err)
		}
		var all sync.WaitGroup
		for name, c := range map[string]*stream.Conn{"writer": writer, "reader": reader} {
			if err := c.SetLinger(20); err != nil {
				t.Fatalf("SetLinger: %v", err)
			}
			all.Go(func() {
				if err := c.Close(); err != nil {
					t.Errorf("Close of the %s = %v", name, err)
				}
			})
		}
		all.Wait()
	}
}

// TestVMCloseAfterWrite closes right after a Write. The peer must get all bytes and the end of the
// stream.
func TestVMCloseAfterWrite(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	for i := range 30 {
		conn, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("d.DialContext: %v", err)
		}
		s := accept(t, ln)
		want := bytes.Repeat([]byte{byte(i)}, i*5000)
		if _, err := conn.Write(want); err != nil {
			t.Fatalf("conn.Write: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.SetReadDeadline(time.Now().Add(streamconntest.Limit))
		if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ReadAll = %d bytes, %v, want %d", len(got), err, len(want))
		}
		s.Close()
	}
}

// TestVMRemoval removes the devices of both sides, one after the other.
func TestVMRemoval(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	ln, d := vmEnds(t, ends{})
	streamconntest.VMRemoval(t, hosts, ln, func() (net.Conn, error) {
		return d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	})
}
