// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"syscall"
	"testing"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
)

// TestMap writes to memory that the peer has mapped. A byte of the stream follows when it is
// complete.
func TestMap(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, rsocket.Options{Maps: 1, SendBuffer: 4096})
		const size, offset = 100_000, 1 << 40
		m, err := s.Map(size, offset)
		if err != nil {
			t.Fatalf("Map: %v", err)
		}
		defer m.Close()
		if _, err := s.Map(size, 0); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("second Map() = %v, want ENOMEM", err)
		}
		s.Write([]byte("x"))
		io.ReadFull(c, make([]byte, 1))
		for _, at := range []int64{offset - 1, offset + size} {
			if _, err := c.WriteAt([]byte("x"), at); !errors.Is(err, syscall.ENXIO) {
				t.Errorf("WriteAt(%d) = %v, want ENXIO", at, err)
			}
		}
		want, _ := io.ReadAll(streamconntest.Random(1, size-10))
		if n, err := c.WriteAt(want, offset+10); n != len(want) || err != nil {
			t.Errorf("WriteAt() = %d, %v, want %d", n, err, len(want))
		}
		if n, err := c.WriteAt(make([]byte, 20), offset+size-5); n != 5 || !errors.Is(err, syscall.ENXIO) {
			// The five bytes are zeros, so they are restored below.
			t.Errorf("WriteAt() over the end = %d, %v, want 5, ENXIO", n, err)
		}
		c.WriteAt(want[len(want)-5:], offset+size-5)
		c.Write([]byte("x"))
		io.ReadFull(s, make([]byte, 1))
		if !bytes.Equal(m.Bytes()[10:], want) {
			t.Error("the mapped bytes differ from the written ones")
		}
		if err := m.Close(); err != nil {
			t.Errorf("Mapping.Close: %v", err)
		}
		again, err := s.Map(size, 0)
		if err != nil {
			t.Fatalf("Map() after Close: %v", err)
		}
		again.Close()
	})
}

// TestMapEntry checks the entry that a big-endian peer gets.
func TestMapEntry(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, rsocket.Options{})
	p := dialRaw(t, k, 3)
	c := accept(t, ln)
	if _, err := c.Map(100, 0); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("Map() for a peer without a list = %v, want ENOMEM", err)
	}
	p.conn.Close()
	p = dialRawMaps(t, k, 3, 2)
	c = accept(t, ln)
	p.recv() // credits
	for i := range 2 {
		m, err := c.Map(100, int64(i+7))
		if err != nil {
			t.Fatalf("Map: %v", err)
		}
		defer m.Close()
		if got, want := p.recv(), uint32(6<<29)|uint32(i); got != want {
			t.Errorf("message = %#x, want %#x", got, want)
		}
		entry := p.mem.Bytes()[32+24*i:][:24]
		if got := binary.BigEndian.Uint64(entry); got != uint64(i+7) {
			t.Errorf("offset = %d, want %d", got, i+7)
		}
		if got := binary.BigEndian.Uint32(entry[20:]); got != 100 {
			t.Errorf("length = %d, want 100", got)
		}
	}
}

// TestCloseQueuedMap closes a mapping while its announcement waits for a credit. The peer gets the announcement
// of the next mapping in its place.
func TestCloseQueuedMap(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, rsocket.Options{})
	p := dialRawData(t, k, 2, func(data []byte) {
		data[7] = 2                             // mappings
		binary.BigEndian.PutUint16(data[2:], 1) // credits
	})
	c := accept(t, ln)
	p.recv() // credits
	addMap := func(offset int64) *rsocket.Mapping {
		m, err := c.Map(100, offset)
		if err != nil {
			t.Fatalf("Map: %v", err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	addMap(1)
	closed := addMap(2)
	if err := closed.Close(); err != nil {
		t.Errorf("Mapping.Close: %v", err)
	}
	addMap(3)
	p.send(4<<29|100, 0, 0, nil) // credits
	for i, offset := range []uint64{1, 3} {
		if got, want := p.recv(), uint32(6<<29)|uint32(i); got != want {
			t.Errorf("message = %#x, want %#x", got, want)
		}
		if got := binary.LittleEndian.Uint64(p.mem.Bytes()[32+24*i:]); got != offset {
			t.Errorf("offset = %d, want %d", got, offset)
		}
	}
	c.Write([]byte("x"))
	if got := p.recv(); got != 1 {
		t.Errorf("message after the announcements = %#x, want 0x1", got)
	}
}
