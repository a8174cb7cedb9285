// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// dial connects with arbitrary private data.
func dial(ctx context.Context, host vmtest.Host, port string, private []byte) (*cm.Conn, error) {
	p := cm.ConnParam{PrivateData: private}
	d := cm.Dialer{Param: &p}
	return d.Dial(ctx, "tcp", net.JoinHostPort(host.IPv4.String(), port))
}

// strangers returns private data of requests that do not come from a client.
func strangers() [][]byte {
	longest := vmtest.PrivateData(56)
	other := []byte(magic[:len(magic)-1] + "0")
	return [][]byte{nil, vmtest.Garbage(1), vmtest.Garbage(len(magic)), vmtest.Garbage(longest), []byte(magic[:len(magic)-1]), other,
		append(other, make([]byte, 8)...), append([]byte(magic), vmtest.Garbage(1)[0]|1), append([]byte(magic), bytes.Repeat([]byte{0xff}, 8)...)}
}

// TestStrangers checks that requests without a client's private data are rejected, both before
// the client connects and while the server waits for its other connections. Some of the
// requests have been withdrawn.
func TestStrangers(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	port, ended := serving(t, ctx, hosts[0], "-R")
	for _, private := range strangers() {
		conn, err := dial(ctx, hosts[0], port, private)
		var rej *cm.RejectError
		if !errors.As(err, &rej) {
			t.Errorf("dial with private data %x = %v, want a RejectError", private, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	o, err := parse([]string{"send_bw", "-R", "-n", "100", "-q", "3", "-s", "8", "-p", port, hosts[0].IPv4.String()}, io.Discard)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	c, err := newClient(ctx, o)
	if err != nil {
		t.Fatalf("newClient: %v", err)
	}
	defer c.close()
	// The server does not read these before it has the plan.
	for _, private := range strangers() {
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		if _, err := dial(short, hosts[0], port, private); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial with private data %x = %v, want context.DeadlineExceeded", private, err)
		}
		stop()
	}
	err = c.setUp(ctx)
	if err == nil {
		_, err = c.size(ctx, 8)
	}
	if err == nil {
		err = c.way.send(ctx, message{})
	}
	if err != nil {
		t.Fatalf("c.setUp, c.size, c.way.send: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve = %v, want nil", err)
	}
}

// TestHostileControl sends data that is no message on the control connection. The server must
// end, and send the reason to a client that listens.
func TestHostileControl(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for name, said := range map[string][]byte{
		"nothing":   {},
		"random":    vmtest.Garbage(100),
		"the most":  bytes.Repeat([]byte("["), maxMessage),
		"too much":  bytes.Repeat([]byte("["), maxMessage+1),
		"truncated": []byte(`{"Plan":{"test":"send`),
		"huge":      []byte(`{"Plan":{"test":"send_bw","connection":"RC","max_bytes":1073741824,"qps":4096,"depth":32768,"list":1,"rdma_cm":true}}`),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			port, ended := serving(t, ctx, hosts[0], "-R")
			conn, err := dial(ctx, hosts[0], port, []byte(magic+"\x00"))
			if err != nil {
				t.Fatalf("dial: %v", err)
			}
			defer conn.Close()
			mr, err := conn.PD().Alloc(3*maxMessage, verbs.LocalWrite)
			if err != nil {
				t.Fatalf("conn.PD().Alloc: %v", err)
			}
			defer mr.Close()
			if name != "random" { // the server does not wait for a client that posts no receives
				if err := conn.PostRecv(0, mr.Slice(2*maxMessage, maxMessage)); err != nil {
					t.Fatalf("conn.PostRecv: %v", err)
				}
			}
			conn.Send(ctx, mr.Slice(0, copy(mr.Bytes(), said)))
			select {
			case err := <-ended:
				if err == nil {
					t.Error("serve = nil, want an error")
				} else {
					t.Log(err)
				}
			case <-time.After(3 * settleTime):
				t.Error("serve has not returned")
			}
		})
	}
}

// TestHostileServer checks that a client fails if its server accepts with garbage and answers
// with garbage.
func TestHostileServer(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for name, garbage := range map[string]string{
		"random":     string(vmtest.Garbage(100)),
		"truncated":  `{"Token":1`,
		"huge":       `{"Memory":{"Addr":18446744073709551615,"Length":18446744073709551615,"RKey":4294967295},"Token":18446744073709551615,"Plan":{"mtu":-1,"rd_atomic":-9223372036854775808}}`,
		"too large":  `{"Memory":{"Addr":1e400}}`,
		"an error":   `{"Error":"\u001b[2J"}`,
		"no message": "",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ln, err := cm.Listen(ctx, "tcp", hosts[0].IPv4.String()+":0")
			if err != nil {
				t.Fatalf("cm.Listen: %v", err)
			}
			served := make(chan error, 1)
			go func() { served <- answerBadly(ctx, ln, garbage) }()
			_, port, _ := strings.Cut(ln.Addr().String(), ":")
			var out, errs bytes.Buffer
			if status := run(ctx, []string{"write_bw", "-R", "-n", "10", "-s", "8", "-p", port, hosts[0].IPv4.String()}, &out, &errs); status != statusFailed ||
				errs.Len() == 0 || strings.Contains(errs.String(), "\x1b") {
				t.Errorf("run = %d, stderr %q, want %d and an error without escape sequences", status, errs.String(), statusFailed)
			}
			t.Logf("%s", errs.String())
			ln.Close()
			if err := <-served; err != nil {
				t.Errorf("answerBadly: %v", err)
			}
		})
	}
}

// answerBadly accepts a client's control connection, answers its plan with garbage, and rejects
// all other connections.
func answerBadly(ctx context.Context, ln *cm.Listener, garbage string) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		return err
	}
	mr, err := pd.Alloc(2*maxMessage, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	if err := req.PostRecv(0, mr.Slice(maxMessage, maxMessage)); err != nil {
		return err
	}
	p := cm.ConnParam{PrivateData: vmtest.Garbage(196)}
	conn, err := req.Accept(ctx, nil, &p)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.WaitRecv(ctx); err != nil {
		return err
	}
	if err := conn.Send(ctx, mr.Slice(0, copy(mr.Bytes(), garbage))); err != nil {
		return err
	}
	for {
		req, err := ln.Accept(ctx)
		if err != nil {
			return nil // the listener is closed
		}
		req.Reject(vmtest.Garbage(148))
	}
}
