// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stream_test

import (
	"bytes"
	"io"
	"testing"

	"purerdma/internal/streamconn/streamconntest"
)

// TestInline writes while the device is stopped, and changes the memory afterwards. The device has a copy of short
// data in its send queue, and reads longer data from the memory.
func TestInline(t *testing.T) {
	const inline = 64
	for _, size := range []int{1, inline, inline + 1} {
		k, devices := streamconntest.StoppableMLX5(t)
		c, s := pair(t, k, ends{})
		before, after := bytes.Repeat([]byte{1}, size), bytes.Repeat([]byte{2}, size)
		b, err := c.Pool().Copy(t.Context(), before)
		if err != nil {
			t.Fatalf("c.Pool().Copy: %v", err)
		}
		devices.Lock()
		err = c.WriteBuf(b.Ref())
		copy(b.Bytes(), after)
		devices.Unlock()
		if err != nil {
			t.Fatalf("WriteBuf of %d bytes: %v", size, err)
		}
		want := before
		if size > inline {
			want = after
		}
		got := make([]byte, size)
		if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ReadFull() of %d bytes = %v, %v, want %v", size, got, err, want)
		}
		b.Free()
	}
}
