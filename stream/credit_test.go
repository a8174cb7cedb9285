// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// TestFullWindows fills the windows of both sides and reads frame by frame, without a frame of data
// that could return the credits. The sides stop sending frames after each read, and the credits are
// then enough for more data.
func TestFullWindows(t *testing.T) {
	for _, windows := range [][2]int{{3, 3}, {3, 4}, {4, 4}, {32, 3}, {8, 8}} {
		t.Run(fmt.Sprint(windows), func(t *testing.T) {
			o := ends{
				dial:    stream.Options{Slot: 256, Window: windows[0]},
				listen:  stream.Options{Slot: 256, Window: windows[1]},
				private: true,
			}
			onPairs(t, o, func(t *testing.T, client, server streamconntest.Conn) {
				c, s := client.(*stream.Conn), server.(*stream.Conn)
				c.SetDeadline(time.Now().Add(streamconntest.Limit))
				s.SetDeadline(time.Now().Add(streamconntest.Limit))
				for range 3 {
					write(t, c, windows[1]-1)
					write(t, s, windows[0]-1)
					settle(t, c, s)
					for n := range max(windows[0], windows[1]) - 1 {
						read(t, c, n < windows[0]-1)
						settle(t, c, s)
						read(t, s, n < windows[1]-1)
						settle(t, c, s)
					}
				}
			})
		})
	}
}

// payload is the number of bytes in a full frame of a slot of 256 bytes.
const payload = 256 - stream.FrameLen

// write writes the bytes of n frames.
func write(t *testing.T, c *stream.Conn, n int) {
	t.Helper()
	if _, err := c.Write(make([]byte, n*payload)); err != nil {
		t.Fatalf("Write of %d frames: %v", n, err)
	}
}

// read reads a frame if there is one.
func read(t *testing.T, c *stream.Conn, some bool) {
	t.Helper()
	if !some {
		return
	}
	if _, err := io.ReadFull(c, make([]byte, payload)); err != nil {
		t.Fatalf("Read of a frame: %v", err)
	}
}

// settle waits until no frame is on its way. The sides send only a few frames before that.
func settle(t *testing.T, c, s *stream.Conn) {
	t.Helper()
	const most = 100
	first, _ := stream.Quiet(c, s)
	for end := time.Now().Add(streamconntest.Limit); ; time.Sleep(100 * time.Microsecond) {
		sent, quiet := stream.Quiet(c, s)
		switch {
		case sent-first > most:
			t.Fatalf("the idle sides have sent %d frames, want at most %d", sent-first, most)
		case quiet:
			return
		case time.Now().After(end):
			t.Fatal("a frame does not arrive")
		}
	}
}
