// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// Conn is one end of a connection. Types that embed a *streamconn.Conn implement it.
type Conn interface {
	net.Conn
	io.ReaderFrom
	io.WriterTo
	CloseRead() error
	CloseWrite() error
	Discard(n int) (int, error)
	Peek() ([]byte, error)
	SetLinger(sec int) error
}

// Limit bounds the waits of the tests. Only a wait that hangs may take so long, because a loaded machine
// can run the tests twenty times slower.
const Limit = 2 * time.Minute

// Abort closes a connection without waiting for its peer.
func Abort(c Conn) {
	c.SetLinger(0)
	c.Close()
}

// OnlyReader returns r without its other methods.
func OnlyReader(r io.Reader) io.Reader { return onlyReader{r} }

type onlyReader struct{ io.Reader }

// Random returns n pseudo-random bytes.
func Random(seed uint64, n int64) io.Reader {
	var key [32]byte
	key[0] = byte(seed)
	return io.LimitReader(rand.NewChaCha8(key), n)
}

// patientReader reads from a connection, and bounds the time of each Read.
type patientReader struct{ c Conn }

func (r patientReader) Read(b []byte) (int, error) {
	r.c.SetReadDeadline(time.Now().Add(Limit))
	return r.c.Read(b)
}

// write writes the bytes of r in pieces of random sizes, and then half-closes. It bounds the time of each
// Write.
func write(t *testing.T, c Conn, r io.Reader, seed uint64) {
	sizes := rand.New(rand.NewPCG(seed, 0))
	buf := make([]byte, 100_000)
	for {
		n, err := io.ReadFull(r, buf[:1+sizes.IntN(1<<sizes.IntN(17))])
		c.SetWriteDeadline(time.Now().Add(Limit))
		if _, werr := c.Write(buf[:n]); werr != nil {
			t.Errorf("Write: %v", werr)
			return
		}
		if err != nil {
			break
		}
	}
	if err := c.CloseWrite(); err != nil {
		t.Errorf("CloseWrite: %v", err)
	}
}
