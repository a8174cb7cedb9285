// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// TestCloseAnyTime closes connections in several ways while data flows in both directions. Each side must
// get a prefix of the peer's data. It must get all of it if its stream ends with io.EOF.
func TestCloseAnyTime(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, ends{})
		data, _ := io.ReadAll(streamconntest.Random(1, 1<<20))
		for round := range 40 {
			c, s := dial(t, k, stream.Options{Window: 3 + round%8}, ln), accept(t, ln)
			rng := rand.New(rand.NewPCG(uint64(round), 0))
			sizes := [2]int{rng.IntN(len(data)), rng.IntN(len(data))}
			var all sync.WaitGroup
			for i, x := range []*stream.Conn{c, s} {
				how := rng.IntN(3)
				all.Go(func() {
					x.Write(data[:sizes[i]])
					switch how {
					case 0:
						x.Close()
					case 1:
						streamconntest.Abort(x)
					case 2:
						x.CloseWrite()
					}
				})
				all.Go(func() {
					x.SetReadDeadline(time.Now().Add(streamconntest.Limit))
					got, err := io.ReadAll(streamconntest.OnlyReader(x))
					if !bytes.HasPrefix(data, got) {
						t.Errorf("round %d: %d received bytes differ from the sent ones", round, len(got))
					}
					switch {
					case err == nil && len(got) != sizes[1-i]:
						t.Errorf("round %d: ReadAll = %d bytes at the end of the stream, want %d", round, len(got), sizes[1-i])
					case err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET):
						t.Errorf("round %d: ReadAll = %v, want the end of the connection", round, err)
					}
				})
			}
			all.Wait()
			streamconntest.Abort(c)
			streamconntest.Abort(s)
		}
	})
}

// TestFailedSend makes a send fail before the arrived messages are handled. The program can still read
// them.
func TestFailedSend(t *testing.T) {
	for _, private := range []bool{false, true} {
		streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
			c, s := pair(t, k, ends{private: private})
			want := []byte("the last bytes")
			s.FailSend(func() {
				if _, err := c.Write(want); err != nil {
					t.Errorf("Write() = %v", err)
				}
				if err := c.Close(); err != nil {
					t.Errorf("Close() = %v", err)
				}
			})
			s.SetReadDeadline(time.Now().Add(streamconntest.Limit))
			if got, err := io.ReadAll(s); !bytes.Equal(got, want) || err != nil {
				t.Errorf("ReadAll() = %q, %v, want %q", got, err, want)
			}
			if _, err := s.Write(want); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("Write() after a failed send = %v, want %v", err, syscall.ECONNRESET)
			}
		})
	}
}

// TestCancelledDials cancels the context of dials at all times.
func TestCancelledDials(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		ln := listen(t, k, ends{})
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					io.Copy(io.Discard, c)
					c.Close()
				}()
			}
		}()
		d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
		for i := range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
			c, err := d.DialContext(ctx, "tcp", ln.Addr().String())
			cancel()
			switch {
			case err == nil:
				c.Close()
			case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded):
				t.Errorf("DialContext = %v, want %v", err, context.DeadlineExceeded)
			}
		}
	})
}
