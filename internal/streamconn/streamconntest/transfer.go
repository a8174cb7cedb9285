// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"purerdma/verbs"
)

// Transfer sends size bytes in both directions at a time, in writes of random sizes, and compares the
// checksums.
func Transfer(t *testing.T, c, s Conn, size int64) {
	var all sync.WaitGroup
	for i, pipe := range [][2]Conn{{c, s}, {s, c}} {
		sent, received := sha256.New(), sha256.New()
		all.Go(func() { write(t, pipe[0], io.TeeReader(Random(uint64(i), size), sent), uint64(i)) })
		all.Go(func() {
			if n, err := io.Copy(received, patientReader{pipe[1]}); n != size || err != nil {
				t.Errorf("Copy() = %d, %v, want %d bytes", n, err, size)
			}
		})
		defer func() {
			if got, want := received.Sum(nil), sent.Sum(nil); !bytes.Equal(got, want) {
				t.Errorf("SHA-256 of the received bytes = %x, want %x", got, want)
			}
		}()
	}
	all.Wait()
}

// FullBuffers fills the buffers in both directions before a program reads.
func FullBuffers(t *testing.T, c, s Conn) {
	var all sync.WaitGroup
	var wrote [2]int
	for i, x := range []Conn{c, s} {
		all.Go(func() {
			x.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			var err error
			for buf := make([]byte, 10_000); err == nil; {
				var n int
				n, err = x.Write(buf)
				wrote[i] += n
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write() = %v, want %v", err, os.ErrDeadlineExceeded)
			}
		})
	}
	all.Wait()
	for i, x := range []Conn{c, s} {
		all.Go(func() {
			x.CloseWrite()
			if n, err := io.Copy(io.Discard, x); int(n) != wrote[1-i] || err != nil {
				t.Errorf("Copy() = %d, %v, want %d bytes", n, err, wrote[1-i])
			}
		})
	}
	all.Wait()
}

// PingPong sends single messages both ways in turn.
func PingPong(t *testing.T, c, s Conn) {
	go io.Copy(s, OnlyReader(s))
	buf := make([]byte, 300)
	for i := range 500 {
		c.SetDeadline(time.Now().Add(Limit))
		if _, err := c.Write(buf[:1+i%len(buf)]); err != nil {
			t.Fatalf("Write: %v", err)
		}
		if _, err := io.ReadFull(c, buf[:1+i%len(buf)]); err != nil {
			t.Fatalf("ReadFull() of message %d: %v", i, err)
		}
	}
}

// Reader checks the connection as an io.Reader.
func Reader(t *testing.T, c, s Conn) {
	want, _ := io.ReadAll(Random(1, 100_000))
	go func() {
		c.Write(want)
		c.Close()
	}()
	if err := iotest.TestReader(OnlyReader(s), want); err != nil {
		t.Errorf("iotest.TestReader: %v", err)
	}
}

// Copy transfers data by ReadFrom and WriteTo.
func Copy(t *testing.T, c, s Conn) {
	const size = 1 << 20
	want, _ := io.ReadAll(Random(1, size))
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() {
		if n, err := c.ReadFrom(OnlyReader(bytes.NewReader(want))); n != size || err != nil {
			t.Errorf("ReadFrom() = %d, %v, want %d bytes", n, err, size)
		}
		c.Close()
	})
	var got bytes.Buffer
	if n, err := s.WriteTo(&got); n != size || err != nil {
		t.Errorf("WriteTo() = %d, %v, want %d bytes", n, err, size)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("the received bytes differ from the sent ones")
	}
}

// ReadFromSlowSource checks that ReadFrom sends the bytes that it has while its source blocks.
func ReadFromSlowSource(t *testing.T, c, s Conn) {
	r, w := io.Pipe()
	go c.ReadFrom(r)
	defer w.Close()
	s.SetReadDeadline(time.Now().Add(Limit))
	for i := range 100 {
		want := fmt.Sprint("message ", i)
		for _, part := range []string{want[:3], want[3:]} {
			io.WriteString(w, part)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(s, got); string(got) != want || err != nil {
			t.Fatalf("ReadFull() = %q, %v, want %q", got, err, want)
		}
	}
}

// Peek reads received bytes without a copy before it consumes them.
func Peek(t *testing.T, c, s Conn) {
	c.Write([]byte("hello"))
	for _, want := range []string{"hello", "llo"} {
		if got, err := s.Peek(); string(got) != want || err != nil {
			t.Errorf("Peek() = %q, %v, want %q", got, err, want)
		}
		if want == "hello" {
			if n, err := s.Discard(2); n != 2 || err != nil {
				t.Errorf("Discard(2) = %d, %v, want 2", n, err)
			}
		}
	}
	c.CloseWrite()
	if n, err := s.Discard(10); n != 3 || err != io.EOF {
		t.Errorf("Discard(10) = %d, %v, want 3, %v", n, err, io.EOF)
	}
}

// SmallWrites writes little data in many calls while the devices do not send. The data is then sent by few requests.
// qp is the QP of c.
func SmallWrites(t *testing.T, c, s Conn, qp *verbs.QP, devices sync.Locker) {
	const writes, most = 100, 10
	before := requests(qp)
	var want bytes.Buffer
	devices.Lock()
	for i := range writes {
		b := fmt.Appendf(nil, "message %2d", i)
		want.Write(b)
		if _, err := c.Write(b); err != nil {
			t.Errorf("Write: %v", err)
		}
	}
	devices.Unlock()
	s.SetReadDeadline(time.Now().Add(Limit))
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(s, got); !bytes.Equal(got, want.Bytes()) || err != nil {
		t.Errorf("ReadFull() = %q, %v, want %q", got, err, want.Bytes())
	}
	if n := requests(qp) - before; n > most {
		t.Errorf("%d writes have posted %d requests, want at most %d", writes, n, most)
	}
}

// requests returns the number of send requests that a QP has posted.
func requests(qp *verbs.QP) (n uint64) {
	for _, c := range qp.Stats().Sends {
		n += c.Operations
	}
	return n
}

// Allocations checks that Write and Read allocate nothing. The fake kernel allocates in system calls, so the
// devices must be of mlx5.
func Allocations(t *testing.T, c, s Conn) {
	go io.Copy(s, OnlyReader(s))
	for _, size := range []int{64, 100} { // inline and not, for package stream
		buf := make([]byte, size)
		once := func() {
			if _, err := c.Write(buf); err != nil {
				t.Fatalf("c.Write: %v", err)
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				t.Fatalf("io.ReadFull: %v", err)
			}
		}
		for range 100 {
			once()
		}
		if n := testing.AllocsPerRun(500, once); n > 0 {
			t.Errorf("a Write and a Read of %d bytes allocate %v times, want 0", size, n)
		}
	}
}
