// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"context"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/inflight"
)

// DialRaw connects to a listener of a package without that package. hello is the private data.
func DialRaw(t testing.TB, k *cmtest.Kernel, to string, hello []byte) (*cm.Conn, error) {
	t.Helper()
	d := cm.Dialer{Host: k.Host(), Param: &cm.ConnParam{PrivateData: hello}, Receive: &inflight.ReceiveConfig{Size: 64 << 10, Depth: 64}}
	conn, err := d.Dial(Deadline(t), "tcp", to)
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// SendRaw sends a message on a connection of DialRaw.
func SendRaw(t testing.TB, conn *cm.Conn, b []byte) error {
	t.Helper()
	buf, err := conn.Pool().Copy(Deadline(t), append(b[:len(b):len(b)], 0)) // memory for an empty message
	if err != nil {
		t.Fatalf("conn.Pool().Copy: %v", err)
	}
	op, err := conn.StartSend(Deadline(t), buf.Slice(0, len(b)), buf)
	if err != nil {
		return err
	}
	return op.Wait(Deadline(t))
}

// ListenRaw accepts a connection without private data, and returns the address of the listener.
func ListenRaw(t testing.TB, k *cmtest.Kernel) string {
	t.Helper()
	return AnswerRaw(t, k, nil)
}

// AnswerRaw is ListenRaw with private data in the acceptance.
func AnswerRaw(t testing.TB, k *cmtest.Kernel, hello []byte) string {
	t.Helper()
	ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(t.Context(), "tcp", "10.0.0.1:0")
	if err != nil {
		t.Fatalf("cm.ListenConfig.Listen: %v", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if req, err := ln.Accept(context.Background()); err == nil {
			if conn, err := req.Accept(context.Background(), nil, &cm.ConnParam{PrivateData: hello}); err == nil {
				defer conn.Close()
				conn.WaitRecv(context.Background())
			}
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-over
	})
	return ln.Addr().String()
}
