// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
)

// sizes are options of both sides that a transfer must work with.
var sizes = []rsocket.Options{
	{},
	{SendBuffer: 4096, RecvBuffer: 4096},
	{SendBuffer: 1 << 20, RecvBuffer: 4112, SendQueue: 16, RecvQueue: 16, Inline: -1},
}

// onSizes runs a test with each of sizes.
func onSizes(t *testing.T, test func(t *testing.T, c, s streamconntest.Conn)) {
	for _, opts := range sizes {
		t.Run(fmt.Sprint(opts), func(t *testing.T) { onPairs(t, opts, test) })
	}
}

func TestTransfer(t *testing.T) {
	onSizes(t, func(t *testing.T, c, s streamconntest.Conn) { streamconntest.Transfer(t, c, s, 4<<20) })
}

func TestFullBuffers(t *testing.T) { onSizes(t, streamconntest.FullBuffers) }
func TestPingPong(t *testing.T)    { onSizes(t, streamconntest.PingPong) }

func TestReader(t *testing.T) { onPairs(t, rsocket.Options{}, streamconntest.Reader) }
func TestCopy(t *testing.T)   { onPairs(t, rsocket.Options{}, streamconntest.Copy) }
func TestPeek(t *testing.T)   { onPairs(t, rsocket.Options{}, streamconntest.Peek) }
func TestReadFromSlowSource(t *testing.T) {
	onPairs(t, rsocket.Options{}, streamconntest.ReadFromSlowSource)
}

func TestHalfClose(t *testing.T) { onPairs(t, rsocket.Options{}, streamconntest.HalfClose) }
func TestCloseWriteDuringReadFrom(t *testing.T) {
	onPairs(t, rsocket.Options{}, streamconntest.CloseWriteDuringReadFrom)
}
func TestCloseDuringReadFrom(t *testing.T) {
	onPairs(t, rsocket.Options{}, streamconntest.CloseDuringReadFrom)
}
func TestCloseRead(t *testing.T)   { onPairs(t, rsocket.Options{}, streamconntest.CloseRead) }
func TestClosedPeer(t *testing.T)  { onPairs(t, rsocket.Options{}, streamconntest.ClosedPeer) }
func TestAbortedPeer(t *testing.T) { onPairs(t, rsocket.Options{}, streamconntest.AbortedPeer) }
func TestErrors(t *testing.T)      { onPairs(t, rsocket.Options{}, streamconntest.Errors) }

// TestDialAddrs dials the addresses of a listener and of a connection.
func TestDialAddrs(t *testing.T) {
	k := streamconntest.RXE(t)
	d := rsocket.Dialer{CM: cm.Dialer{Host: k.Host()}}
	streamconntest.DialAddrs(t, listen(t, k, rsocket.Options{}).Addr(), d.DialContext)
}

func TestLinger(t *testing.T) {
	onPairs(t, rsocket.Options{SendBuffer: streamconntest.LingerBuffer}, streamconntest.Linger)
}

func TestPollsWhileWaiting(t *testing.T) {
	onPairs(t, rsocket.Options{}, streamconntest.PollsWhileWaiting)
}

func TestAllocations(t *testing.T) {
	c, s := pair(t, streamconntest.MLX5(t), rsocket.Options{})
	streamconntest.Allocations(t, c, s)
}

func TestLingerInBackground(t *testing.T) {
	c, s := pair(t, streamconntest.RXE(t), rsocket.Options{SendBuffer: streamconntest.LingerBuffer})
	streamconntest.LingerInBackground(t, c, s)
}

func TestSmallWrites(t *testing.T) {
	k, devices := streamconntest.StoppableMLX5(t)
	c, s := pair(t, k, rsocket.Options{})
	streamconntest.SmallWrites(t, c, s, c.QP(), devices)
}

func TestKeepAlive(t *testing.T) {
	k := streamconntest.RXE(t)
	c, _ := pair(t, k, rsocket.Options{KeepAlive: 10 * time.Millisecond})
	streamconntest.KeepAlive(t, c, func() bool { return k.Unplug("rxe0") })
}

func TestSilentPeer(t *testing.T) {
	k := streamconntest.RXE(t)
	c, _ := pair(t, k, rsocket.Options{KeepAlive: -1})
	streamconntest.SilentPeer(t, c, func() bool { return k.Unplug("rxe0") })
}

// TestWrap transfers data while the 16-bit counts of messages wrap around.
func TestWrap(t *testing.T) {
	onPairs(t, rsocket.Options{}, func(t *testing.T, c, s streamconntest.Conn) {
		for _, pipe := range [][2]streamconntest.Conn{{c, s}, {s, c}} { // the first credits have arrived then
			if _, err := pipe[0].Write([]byte{1}); err != nil {
				t.Fatalf("Write: %v", err)
			}
			if _, err := pipe[1].Discard(1); err != nil {
				t.Fatalf("Discard: %v", err)
			}
		}
		rsocket.NearWrap(c.(*rsocket.Conn), s.(*rsocket.Conn))
		streamconntest.Transfer(t, c, s, 256<<10)
		for _, x := range []streamconntest.Conn{c, s} {
			if n := x.(*rsocket.Conn).Sent(); n > 1<<15 {
				t.Errorf("Sent() = %d, want a small number after the wrap", n)
			}
		}
	})
}

// TestOptions checks that bad options are refused before anything is made.
func TestOptions(t *testing.T) {
	k := streamconntest.RXE(t)
	for _, opts := range []rsocket.Options{{SendBuffer: 1}, {RecvBuffer: math.MaxInt}, {Maps: -1}, {Maps: 40000}} {
		d := rsocket.Dialer{Options: opts}
		d.CM.Host = k.Host()
		if _, err := d.DialContext(streamconntest.Deadline(t), "tcp", server); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("DialContext() with %+v = %v, want EINVAL", opts, err)
		}
	}
	d := rsocket.Dialer{}
	if _, err := d.DialContext(streamconntest.Deadline(t), "udp", server); !errors.As(err, new(net.UnknownNetworkError)) {
		t.Errorf("DialContext() of udp = %v, want an UnknownNetworkError", err)
	}
}
