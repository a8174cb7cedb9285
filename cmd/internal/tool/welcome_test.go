// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/cmd/internal/tool/tooltest"
)

// readWord reads a peer's first message, which must be "hello".
func readWord(conn net.Conn) (string, error) {
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil {
		return "", err
	}
	if string(b) != "hello" {
		return "", errors.New("another word")
	}
	return string(b), nil
}

// welcomeAt starts to gather n guests and returns the address. refused receives the reason for
// each closed connection.
func welcomeAt(t *testing.T, ctx context.Context, n int, patience time.Duration) (addr string, refused <-chan error, gathered func() ([]Guest[string], error)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	closed := make(chan error, 1000)
	w := &Welcome[string]{Listener: ln, Patience: patience, Read: readWord, Refused: func(_ net.Conn, err error) { closed <- err }}
	var guests []Guest[string]
	done := make(chan struct{})
	go func() {
		defer close(done)
		guests, err = w.Gather(ctx, n)
	}()
	return ln.Addr().String(), closed, func() ([]Guest[string], error) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("Gather has not returned")
		}
		for _, l := range guests {
			t.Cleanup(func() { l.Conn.Close() })
		}
		return guests, err
	}
}

// connectTo connects and sends hello.
func connectTo(t *testing.T, addr string, hello []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write(hello); err != nil {
		t.Fatalf("conn.Write: %v", err)
	}
	return conn
}

// TestGatherOutOfDescriptors checks that Gather continues while the process is out of descriptors.
func TestGatherOutOfDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	connectTo(t, ln.Addr().String(), []byte("hello"))
	w := &Welcome[string]{Listener: &tooltest.FailingListener{Listener: ln, Errs: []error{syscall.EMFILE}}, Read: readWord}
	guests, err := w.Gather(t.Context(), 1)
	if err != nil || len(guests) != 1 {
		t.Fatalf("w.Gather = %d guests, %v, want 1", len(guests), err)
	}
	guests[0].Conn.Close()
}

// TestStrangersAreNoPeers checks connections that send nothing, an incomplete message, or another message.
// They do not count as peers and do not block the run.
func TestStrangersAreNoPeers(t *testing.T) {
	addr, refused, gathered := welcomeAt(t, t.Context(), 2, 200*time.Millisecond)
	hello := []byte("hello")
	silent := connectTo(t, addr, nil)
	connectTo(t, addr, hello[:4])
	connectTo(t, addr, []byte("GET / HTTP/1.1"))
	connectTo(t, addr, nil).Close()
	var texts []string
	for range 4 {
		texts = append(texts, (<-refused).Error())
	}
	slices.Sort(texts)
	for i, want := range []string{"EOF", "another word", "i/o timeout", "i/o timeout"} {
		if !strings.Contains(texts[i], want) {
			t.Errorf("refused because of %q, want %q", texts[i], want)
		}
	}
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the silent connection reads %d, %v, want EOF", n, err)
	}
	connectTo(t, addr, hello)
	connectTo(t, addr, hello)
	if guests, err := gathered(); len(guests) != 2 || err != nil {
		t.Errorf("Gather = %d guests, %v, want 2", len(guests), err)
	}
}

// TestSilentStrangersFirst checks that many silent connections do not keep out the peers. They
// are closed when all peers have connected.
func TestSilentStrangersFirst(t *testing.T) {
	addr, _, gathered := welcomeAt(t, t.Context(), 1, time.Hour)
	var strangers []net.Conn
	for range maxStrangers {
		strangers = append(strangers, connectTo(t, addr, nil))
	}
	connectTo(t, addr, []byte("hello"))
	if guests, err := gathered(); len(guests) != 1 || err != nil {
		t.Fatalf("Gather = %d guests, %v, want 1", len(guests), err)
	}
	for _, s := range strangers {
		s.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a stranger reads %v, want a closed connection", err)
		}
	}
}

// TestGatherEnds checks that Gather ends with the context.
func TestGatherEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr, _, gathered := welcomeAt(t, ctx, 2, time.Hour)
	connectTo(t, addr, nil)
	cancel()
	if guests, err := gathered(); len(guests) != 0 || err == nil {
		t.Errorf("Gather = %d guests, %v, want an error", len(guests), err)
	}
}
