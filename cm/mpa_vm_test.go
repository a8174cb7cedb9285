// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// mpaListener accepts iWARP connections. It is a peer on a plain TCP socket (RFC 5044, 7.1).
type mpaListener struct{ net.Listener }

// accept answers a connection request with its own parameters and private data. It returns the
// connection, on which the RDMAP frames follow.
func (l mpaListener) accept() (net.Conn, error) {
	conn, err := l.Accept()
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	frame := make([]byte, 20)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return conn, err
	}
	data := make([]byte, binary.BigEndian.Uint16(frame[18:]))
	if _, err := io.ReadFull(conn, data); err != nil {
		return conn, err
	}
	copy(frame, "MPA ID Rep Frame")
	_, err = conn.Write(append(frame, data...))
	return conn, err
}

// rdmapOpcode reads one frame and returns its RDMAP opcode (RFC 5040, 4.3).
func rdmapOpcode(conn net.Conn) (int, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	pad := -(n + 2) & 3
	frame := make([]byte, n+pad+4) // including the checksum, or 4 zeros
	if _, err := io.ReadFull(conn, frame); err != nil {
		return 0, err
	}
	return int(frame[1] & 0xf), nil
}

// TestIWARPFirstProbe requires a probe after the first message of a connection, long before
// the connection is idle. A siw that has missed the first message then reads both.
func TestIWARPFirstProbe(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	tcp, err := net.Listen("tcp", net.JoinHostPort(hosts[0].IPv4.String(), "0"))
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer tcp.Close()
	type result struct {
		opcodes [2]int
		err     error
	}
	received := make(chan result, 1)
	go func() {
		var r result
		conn, err := mpaListener{tcp}.accept()
		if conn != nil {
			defer conn.Close()
		}
		for i := range r.opcodes {
			if err == nil {
				r.opcodes[i], err = rdmapOpcode(conn)
			}
		}
		r.err = err
		received <- r
	}()
	d := cm.Dialer{LocalAddr: mustParse(at(hosts[1].IPv4, 0))}
	conn, err := d.Dial(within(t, 10*time.Second), "tcp", tcp.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	buf, err := conn.Alloc(64, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("conn.Alloc: %v", err)
	}
	if err := conn.Send(within(t, 10*time.Second), buf.SGE()); err != nil {
		t.Fatalf("conn.Send: %v", err)
	}
	const write, send = 0, 3
	if r := <-received; r.err != nil || r.opcodes != [2]int{send, write} {
		t.Errorf("RDMAP opcodes = %v, %v, want a SEND and a WRITE", r.opcodes, r.err)
	}
}
