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

// dial connects with any private data.
func dial(ctx context.Context, host vmtest.Host, port string, private []byte) (*cm.Conn, error) {
	p := cm.ConnParam{PrivateData: private}
	d := cm.Dialer{Param: &p}
	return d.Dial(ctx, "tcp", net.JoinHostPort(host.IPv4.String(), port))
}

// strangers are requests of which none is a client's.
func strangers() [][]byte {
	longest := vmtest.PrivateData(56)
	other := []byte(magic[:len(magic)-1] + "0")
	return [][]byte{nil, vmtest.Garbage(1), vmtest.Garbage(len(magic)), vmtest.Garbage(longest), []byte(magic[:len(magic)-1]), other,
		append(other, make([]byte, 8)...), append([]byte(magic), vmtest.Garbage(1)[0]|1), append([]byte(magic), bytes.Repeat([]byte{0xff}, 8)...)}
}

// TestStrangers: requests with private data that is no client's are refused, before the
// client comes, and while the server waits for its other connections; also those that
// have been withdrawn.
func TestStrangers(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	port, ended := serving(t, ctx, hosts[0], "-R")
	for _, private := range strangers() {
		conn, err := dial(ctx, hosts[0], port, private)
		var rej *cm.RejectError
		if !errors.As(err, &rej) {
			t.Errorf("%x: %v", private, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	o, err := parse([]string{"send_bw", "-R", "-n", "100", "-q", "3", "-s", "8", "-p", port, hosts[0].IPv4.String()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClient(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	// The server does not look at these before it has the plan.
	for _, private := range strangers() {
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		if _, err := dial(short, hosts[0], port, private); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%x: %v", private, err)
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
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// TestHostileControl: what comes on the connection of control is no message. The server
// ends, and says why to one who listens.
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
				t.Fatal(err)
			}
			defer conn.Close()
			mr, err := conn.PD().Alloc(3*maxMessage, verbs.LocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer mr.Close()
			if name != "random" { // a client that does not even listen is not waited for
				if err := conn.PostRecv(0, mr.Slice(2*maxMessage, maxMessage)); err != nil {
					t.Fatal(err)
				}
			}
			conn.Send(ctx, mr.Slice(0, copy(mr.Bytes(), said)))
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the server has seen nothing")
				} else {
					t.Log(err)
				}
			case <-time.After(3 * settleTime):
				t.Error("the server goes on")
			}
		})
	}
}

// TestHostileServer: a server that accepts with garbage, and answers by garbage, fails the
// client.
func TestHostileServer(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for name, says := range map[string]string{
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
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- answerBadly(ctx, ln, says) }()
			_, port, _ := strings.Cut(ln.Addr().String(), ":")
			var out, errs bytes.Buffer
			if status := run(ctx, []string{"write_bw", "-R", "-n", "10", "-s", "8", "-p", port, hosts[0].IPv4.String()}, &out, &errs); status != statusFailed ||
				errs.Len() == 0 || strings.Contains(errs.String(), "\x1b") {
				t.Errorf("status %d: %q", status, errs.String())
			}
			t.Logf("%s", errs.String())
			ln.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// answerBadly accepts a client's connection of control, answers its plan, and refuses all
// others.
func answerBadly(ctx context.Context, ln *cm.Listener, says string) error {
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
	if err := conn.Send(ctx, mr.Slice(0, copy(mr.Bytes(), says))); err != nil {
		return err
	}
	for {
		req, err := ln.Accept(ctx)
		if err != nil {
			return nil // closed
		}
		req.Reject(vmtest.Garbage(148))
	}
}
