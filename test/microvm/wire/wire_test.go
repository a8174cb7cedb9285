// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// shortWriter takes a few bytes at a time, as a full port does.
type shortWriter struct{ bytes.Buffer }

func (w *shortWriter) Write(b []byte) (int, error) {
	n, _ := w.Buffer.Write(b[:min(3, len(b))])
	return n, io.ErrShortWrite
}

func TestConn(t *testing.T) {
	buf := &shortWriter{}
	c := NewConn(buf)
	big := bytes.Repeat([]byte("x"), 100_000)
	for _, f := range []struct {
		k Kind
		d []byte
	}{{Stdout, []byte("hello")}, {Done, nil}, {Stderr, big}} {
		if err := c.Send(f.k, f.d); err != nil {
			t.Fatal(err)
		}
		k, d, err := c.Receive()
		if err != nil || k != f.k || !bytes.Equal(d, f.d) {
			t.Errorf("got %q, %d bytes, %v; want %q, %d bytes", k, len(d), err, f.k, len(f.d))
		}
	}
}

func TestConnConcurrent(t *testing.T) {
	a, b := net.Pipe()
	sender, receiver := NewConn(a), NewConn(b)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				sender.Send(Stdout, bytes.Repeat([]byte{byte(i)}, 1000))
			}
		})
	}
	go func() { wg.Wait(); a.Close() }()
	for n := 0; ; n++ {
		_, d, err := receiver.Receive()
		if err == io.EOF && n == 200 {
			return
		}
		if err != nil {
			t.Fatal(n, err)
		}
		if len(d) != 1000 || bytes.Count(d, d[:1]) != 1000 {
			t.Fatal("frames are mixed")
		}
	}
}

func TestReceiveGarbage(t *testing.T) {
	_, _, err := NewConn(bytes.NewBufferString("o\xff\xff\xff\xffxx")).Receive()
	if err == nil || !strings.Contains(err.Error(), "out of step") {
		t.Errorf("got %v", err)
	}
}
