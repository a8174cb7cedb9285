// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// mpaListener accepts iWARP connections. It is a peer on a plain TCP socket (RFC 5044, 7.1).
type mpaListener struct{ net.Listener }

// mpaRejected is the flag of a rejection in byte 16 of an answer.
const mpaRejected = 0x20

// request accepts a connection. It returns an answer to the request, with the parameters and the private
// data of the request.
func (l mpaListener) request() (conn *net.TCPConn, answer []byte, err error) {
	accepted, err := l.Accept()
	if err != nil {
		return nil, nil, err
	}
	conn = accepted.(*net.TCPConn)
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	frame := make([]byte, 20)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return conn, nil, err
	}
	data := make([]byte, binary.BigEndian.Uint16(frame[18:]))
	if _, err := io.ReadFull(conn, data); err != nil {
		return conn, nil, err
	}
	copy(frame, "MPA ID Rep Frame")
	return conn, append(frame, data...), nil
}

// accept answers a connection request. It returns the connection, on which the RDMAP frames follow.
func (l mpaListener) accept() (net.Conn, error) {
	conn, answer, err := l.request()
	if conn == nil {
		return nil, err
	}
	if err == nil {
		_, err = conn.Write(answer)
	}
	return conn, err
}

// TestIWARPRejectionWithEnd has a peer that sends a rejection and the end of the TCP connection in one
// segment. siw handles the end first and reports a rejection without private data
// (docs/reference/driver-faults.md). With the end in a segment of its own the private data arrives.
func TestIWARPRejectionWithEnd(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	tcp, err := net.Listen("tcp", net.JoinHostPort(hosts[0].IPv4.String(), "0"))
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer tcp.Close()
	reject := func(one bool) error {
		conn, answer, err := mpaListener{tcp}.request()
		if conn != nil {
			defer conn.Close()
		}
		if err != nil {
			return err
		}
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		answer[16] |= mpaRejected
		if one { // the kernel keeps the answer until it has the end
			if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) }); cerr != nil || err != nil {
				return errors.Join(cerr, err)
			}
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
		if one {
			return conn.CloseWrite()
		}
		_, err = io.Copy(io.Discard, conn) // until the client has the rejection
		return err
	}
	d := cm.Dialer{LocalAddr: mustParse(at(hosts[1].IPv4, 0)), Param: &cm.ConnParam{PrivateData: []byte("no room")}}
	for _, c := range []struct {
		name string
		one  bool
		want string
	}{{"two segments", false, "no room"}, {"one segment", true, ""}} {
		answered := make(chan error, 1)
		go func() { answered <- reject(c.one) }()
		_, err := d.Dial(within(t, 20*time.Second), "tcp", tcp.Addr().String())
		var rej *cm.RejectError
		if !errors.As(err, &rej) || string(rej.PrivateData) != c.want {
			t.Errorf("Dial, rejection in %s = %v, want a RejectError with private data %q", c.name, err, c.want)
		}
		if err := <-answered; err != nil {
			t.Errorf("rejection in %s: %v", c.name, err)
		}
	}
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
