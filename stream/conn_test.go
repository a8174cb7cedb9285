// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// sizes are options of both sides that a transfer must work with.
var sizes = map[string]ends{
	"default": {},
	"private": {private: true},
	"least": {
		dial:    stream.Options{Slot: 256, Window: 3, SendBuffer: 1},
		listen:  stream.Options{Slot: 256, Window: 3, SendBuffer: 1},
		private: true,
	},
	"least, shared": {
		dial:   stream.Options{Slot: 512, Window: 3, SendBuffer: 1000},
		listen: stream.Options{Slot: 256, Window: 3, SendBuffer: 1000},
	},
	"unequal": {
		dial:   stream.Options{Slot: 64 << 10, Window: 4, SendBuffer: 1 << 20},
		listen: stream.Options{Slot: 1000, Window: 100},
	},
}

// onSizes runs a test with each of sizes.
func onSizes(t *testing.T, test func(t *testing.T, c, s streamconntest.Conn)) {
	for name, o := range sizes {
		t.Run(name, func(t *testing.T) { onPairs(t, o, test) })
	}
}

func TestTransfer(t *testing.T) {
	for name, o := range sizes {
		t.Run(name, func(t *testing.T) {
			size := int64(4 << 20)
			if o.listen.Slot == 256 {
				size = 256 << 10
			}
			onPairs(t, o, func(t *testing.T, c, s streamconntest.Conn) { streamconntest.Transfer(t, c, s, size) })
		})
	}
}

func TestFullBuffers(t *testing.T) { onSizes(t, streamconntest.FullBuffers) }
func TestPingPong(t *testing.T)    { onSizes(t, streamconntest.PingPong) }

func TestReader(t *testing.T)             { onPairs(t, ends{}, streamconntest.Reader) }
func TestCopy(t *testing.T)               { onPairs(t, ends{}, streamconntest.Copy) }
func TestPeek(t *testing.T)               { onPairs(t, ends{}, streamconntest.Peek) }
func TestReadFromSlowSource(t *testing.T) { onPairs(t, ends{}, streamconntest.ReadFromSlowSource) }

func TestPollsWhileWaiting(t *testing.T) {
	onPairs(t, ends{}, streamconntest.PollsWhileWaiting)
}

func TestHalfClose(t *testing.T) { onPairs(t, ends{}, streamconntest.HalfClose) }
func TestCloseWriteDuringReadFrom(t *testing.T) {
	onPairs(t, ends{}, streamconntest.CloseWriteDuringReadFrom)
}
func TestCloseDuringReadFrom(t *testing.T) {
	onPairs(t, ends{}, streamconntest.CloseDuringReadFrom)
}
func TestCloseRead(t *testing.T)   { onPairs(t, ends{}, streamconntest.CloseRead) }
func TestClosedPeer(t *testing.T)  { onPairs(t, ends{}, streamconntest.ClosedPeer) }
func TestAbortedPeer(t *testing.T) { onPairs(t, ends{}, streamconntest.AbortedPeer) }
func TestErrors(t *testing.T)      { onPairs(t, ends{}, streamconntest.Errors) }

// TestDialAddrs dials the addresses of a listener and of a connection.
func TestDialAddrs(t *testing.T) {
	k := streamconntest.RXE(t)
	d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
	streamconntest.DialAddrs(t, listen(t, k, ends{}).Addr(), d.DialContext)
}

func TestLinger(t *testing.T) {
	onPairs(t, ends{dial: stream.Options{SendBuffer: streamconntest.LingerBuffer}}, streamconntest.Linger)
}

func TestLingerInBackground(t *testing.T) {
	c, s := pair(t, streamconntest.RXE(t), ends{dial: stream.Options{SendBuffer: streamconntest.LingerBuffer}})
	streamconntest.LingerInBackground(t, c, s)
}

func TestSmallWrites(t *testing.T) {
	k, devices := streamconntest.StoppableMLX5(t)
	c, s := pair(t, k, ends{private: true}) // with credits for many frames
	streamconntest.SmallWrites(t, c, s, c.QP(), devices)
}

// TestKeepAlive checks the keepalive of either side. An idle connection with receives of its own sends nothing else.
func TestKeepAlive(t *testing.T) {
	const soon, never = 10 * time.Millisecond, -1
	for _, periods := range [][2]time.Duration{{soon, never}, {never, soon}} {
		k := streamconntest.RXE(t)
		lc := stream.ListenConfig{Private: true, CM: cm.ListenConfig{Host: k.Host(), KeepAlive: periods[0]}}
		ln, err := lc.Listen(t.Context(), "tcp", server)
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		defer ln.Close()
		d := stream.Dialer{CM: cm.Dialer{Host: k.Host(), KeepAlive: periods[1]}}
		c := connect(t, &d, ln.Addr().String())
		if s := accept(t, ln); periods[0] == soon {
			c = s
		}
		streamconntest.KeepAlive(t, c, func() bool { return k.Unplug("rxe1") })
	}
}

// TestSetKeepAlive starts the keepalive of a connection that has none.
func TestSetKeepAlive(t *testing.T) {
	for name, set := range map[string]func(*stream.Conn) error{
		"SetKeepAlivePeriod": func(c *stream.Conn) error { return c.SetKeepAlivePeriod(10 * time.Millisecond) },
		"SetKeepAlive": func(c *stream.Conn) error {
			return errors.Join(c.SetKeepAlivePeriod(10*time.Millisecond), c.SetKeepAlive(false), c.SetKeepAlive(true))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := streamconntest.RXE(t)
			d := stream.Dialer{CM: cm.Dialer{Host: k.Host(), KeepAlive: -1}}
			c := connect(t, &d, listen(t, k, ends{private: true}).Addr().String())
			if err := c.SetKeepAlivePeriod(0); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("SetKeepAlivePeriod(0) = %v, want %v", err, syscall.EINVAL)
			}
			if err := set(c); err != nil {
				t.Errorf("set() = %v", err)
			}
			streamconntest.KeepAlive(t, c, func() bool { return k.Unplug("rxe0") })
		})
	}
}

func TestSilentPeer(t *testing.T) {
	k := streamconntest.RXE(t)
	c, _ := pair(t, k, ends{})
	streamconntest.SilentPeer(t, c, func() bool { return k.Unplug("rxe0") })
}

// TestWrap transfers data while the counts of credits wrap around.
func TestWrap(t *testing.T) {
	for name, o := range sizes {
		t.Run(name, func(t *testing.T) {
			size := int64(256 << 10)
			if o.listen.Slot == 256 {
				size = 32 << 10
			}
			onPairs(t, o, func(t *testing.T, client, server streamconntest.Conn) {
				c, s := client.(*stream.Conn), server.(*stream.Conn)
				settle(t, c, s)
				stream.NearWrap(c, s)
				streamconntest.Transfer(t, c, s, size)
				for _, x := range []*stream.Conn{c, s} {
					if n := x.Sent(); n > 1<<31 {
						t.Errorf("Sent() = %d, want a small number after the wrap", n)
					}
				}
			})
		})
	}
}

func TestAllocations(t *testing.T) {
	c, s := pair(t, streamconntest.MLX5(t), ends{})
	streamconntest.Allocations(t, c, s)
}

// TestWritePolls takes the completion of a large write in the write itself. The devices complete requests as
// they are posted. A goroutine of the library may take some, at the start and when the test does not run.
func TestWritePolls(t *testing.T) {
	c, s := pair(t, streamconntest.RXE(t), ends{})
	const size, writes = 8_000, 500
	taken := 0
	for i := range writes {
		if i%2 == 0 {
			if _, err := c.Write(make([]byte, size)); err != nil {
				t.Fatalf("Write: %v", err)
			}
		} else if buf, err := c.Pool().Get(t.Context(), size); err != nil {
			t.Fatalf("c.Pool().Get: %v", err)
		} else if err := c.WriteBuf(buf); err != nil {
			t.Fatalf("WriteBuf: %v", err)
		}
		if c.InFlight() == 0 {
			taken++
		}
		if _, err := s.Discard(size); err != nil {
			t.Fatalf("Discard: %v", err)
		}
	}
	if taken < writes*3/4 {
		t.Errorf("InFlight() = 0 after %d of %d writes, want at least three quarters", taken, writes)
	}
}

// TestWriteBuf mixes writes with and without a copy.
func TestWriteBuf(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		var want bytes.Buffer
		done := make(chan []byte)
		go func() {
			got, err := io.ReadAll(s)
			if err != nil {
				t.Errorf("ReadAll: %v", err)
			}
			done <- got
		}()
		for i := range 40 {
			b, _ := io.ReadAll(streamconntest.Random(uint64(i), int64(1+i*3001)))
			want.Write(b)
			if i%3 == 0 {
				c.Write(b)
				continue
			}
			buf, err := c.Pool().Copy(t.Context(), b)
			if err != nil {
				t.Fatalf("c.Pool().Copy: %v", err)
			}
			if err := c.WriteBuf(buf); err != nil {
				t.Fatalf("WriteBuf: %v", err)
			}
		}
		c.CloseWrite()
		if got := <-done; !bytes.Equal(got, want.Bytes()) {
			t.Error("the received bytes differ from the sent ones")
		}
		buf, _ := c.Pool().Get(t.Context(), 10)
		if err := c.WriteBuf(buf); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("WriteBuf after CloseWrite = %v, want %v", err, syscall.EPIPE)
		}
	})
}
