// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"io"
	"net"
	"testing"
	"testing/iotest"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestVMReader runs testing/iotest between two devices. TestReader runs it on the fake kernels.
func TestVMReader(t *testing.T) {
	vmtest.Need(t)
	const size = 100_000
	want, err := io.ReadAll(streamconntest.Random(1, size))
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	inVM.Run(t, func(ln net.Listener) func() {
		return serveConn(t, ln, func(c net.Conn) {
			if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil { // the client counts from here on
				t.Errorf("Read() = %d, %v, want 1 byte", n, err)
			}
			if n, err := c.Write(want); err != nil {
				t.Errorf("Write() = %d, %v, want %d bytes", n, err, size)
			}
		})
	}, func(d *stream.Dialer, address string) {
		c := connect(t, d, address)
		inVM.Check(t, size, func() {
			if _, err := c.Write([]byte{1}); err != nil {
				t.Fatalf("Write: %v", err)
			}
			if err := iotest.TestReader(streamconntest.OnlyReader(c), want); err != nil {
				t.Errorf("iotest.TestReader: %v", err)
			}
		})
	})
}
