// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// shortWriter accepts a few bytes at a time, like a full port.
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
			t.Fatalf("c.Send: %v", err)
		}
		k, d, err := c.Receive()
		if err != nil || k != f.k || !bytes.Equal(d, f.d) {
			t.Errorf("Receive = %q, %d bytes, %v, want %q, %d bytes", k, len(d), err, f.k, len(f.d))
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
			t.Fatalf("Receive of frame %d = %v", n, err)
		}
		if len(d) != 1000 || bytes.Count(d, d[:1]) != 1000 {
			t.Fatal("Receive returned mixed frames")
		}
	}
}

func TestReceiveGarbage(t *testing.T) {
	_, _, err := NewConn(bytes.NewBufferString("o\xff\xff\xff\xffxx")).Receive()
	if err == nil || !strings.Contains(err.Error(), "out of sync") {
		t.Errorf("Receive of a large frame = %v, want an error", err)
	}
}

// FuzzReceive reads frames from any bytes. It checks that whole frames arrive in order until
// one is too long or the input ends.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("o\x00\x00\x00\x02hix\x00\x0f\xff\xff"))
	f.Add([]byte("d\x00\x00\x00\x00p\x00\x00\x00\x0b{\"Index\":0}"))
	f.Add([]byte("o\x00\x10\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewConn(bytes.NewBuffer(bytes.Clone(b)))
		for rest := b; ; {
			k, data, err := c.Receive()
			if err != nil {
				if len(rest) >= 5 && binary.BigEndian.Uint32(rest[1:]) <= uint32(min(len(rest)-5, maxFrame)) {
					t.Fatalf("Receive = %v for the frame header %x", err, rest[:5])
				}
				return
			}
			if len(data) > maxFrame || len(rest) < 5+len(data) || byte(k) != rest[0] || !bytes.Equal(data, rest[5:][:len(data)]) {
				t.Fatalf("Receive = frame %q of %d bytes for %x", k, len(data), rest)
			}
			rest = rest[5+len(data):]
		}
	})
}

// FuzzConfig checks that encoding a decoded configuration and decoding it again returns the
// same value.
func FuzzConfig(f *testing.F) {
	for _, c := range []Config{
		{},
		{Driver: "mlx5", PCI: true, Modules: []string{"mlx5_ib"}, Ends: 2, VMs: 2, Host: 1, Root: RootOverlay, Layers: []string{"a", "b"},
			Shares: []Share{{"s", "/tmp"}}, Kernel: "k", Commands: []Command{{"/", []string{"x"}, []string{"A=1"}}}, TTY: true, Rows: 25, Cols: 80, Timeout: time.Minute},
		{Root: RootNone, Program: "/x", Timeout: -1},
	} {
		b, err := json.Marshal(&c)
		if err != nil {
			f.Fatalf("json.Marshal: %v", err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"Ends":1e9,"Rows":65536}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again Config
		if json.Unmarshal(b, &c) != nil {
			return
		}
		out, err := json.Marshal(&c)
		if err != nil {
			t.Fatalf("Marshal(%+v) = %v", c, err)
		}
		if err := json.Unmarshal(out, &again); err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("Unmarshal(%s) = %+v, %v, want %+v", out, again, err, c)
		}
	})
}
