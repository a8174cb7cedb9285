// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/rsocket"
)

// vmEnds returns a listener on the first host, and a function that dials it from the second.
func vmEnds(t *testing.T) ([]vmtest.Host, net.Listener, func() (net.Conn, error)) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t)
	ln, err := rsocket.Listen(t.Context(), "tcp", netip.AddrPortFrom(hosts[0].IPv4, 0).String())
	if err != nil {
		t.Fatalf("Listen() = %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	d := &rsocket.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}}
	return hosts, ln, func() (net.Conn, error) {
		return d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	}
}

// vmPair connects two rsockets.
func vmPair(t *testing.T, ln net.Listener, dial func() (net.Conn, error)) (c, s *rsocket.Conn) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatalf("DialContext() = %v", err)
	}
	t.Cleanup(func() { streamconntest.Abort(conn.(*rsocket.Conn)) })
	return conn.(*rsocket.Conn), accept(t, ln)
}

// TestVMTransfer sends data in both directions at a time.
func TestVMTransfer(t *testing.T) {
	_, ln, dial := vmEnds(t)
	const size = 8 << 20
	vmtest.OverRDMA(t, 2*size, func() {
		c, s := vmPair(t, ln, dial)
		streamconntest.Transfer(t, c, s, size)
	})
}

// TestVMCloseAfterWrite closes right after a Write. On RoCE the peer must get all bytes and the end of the stream. On
// iWARP, Close returns when TCP has the bytes.
func TestVMCloseAfterWrite(t *testing.T) {
	_, ln, dial := vmEnds(t)
	for i := range 10 {
		c, s := vmPair(t, ln, dial)
		want := bytes.Repeat([]byte{byte(i)}, i*5000)
		if _, err := c.Write(want); err != nil {
			t.Fatalf("Write() = %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		s.SetReadDeadline(time.Now().Add(streamconntest.Limit))
		got, err := io.ReadAll(s)
		if vmtest.Driver() != "siw" && (err != nil || !bytes.Equal(got, want)) || !bytes.HasPrefix(want, got) {
			t.Errorf("ReadAll() = %d bytes, %v, want %d", len(got), err, len(want))
		}
		s.Close()
	}
}

// TestVMRemoval removes the devices of both sides, one after the other.
func TestVMRemoval(t *testing.T) {
	hosts, ln, dial := vmEnds(t)
	streamconntest.VMRemoval(t, hosts, ln, dial)
}
