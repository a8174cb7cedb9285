// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"
)

// lateClose is a device that finishes closing when the test allows it.
type lateClose struct {
	Transport
	begun, end chan struct{}
}

func (c lateClose) Close() error {
	close(c.begun)
	<-c.end
	return nil
}

// TestDestroyedWhenClosed checks that an object counts as destroyed when its context has been
// closed. It does not count as destroyed when the close has only begun, because the device may
// still write to its memory.
func TestDestroyedWhenClosed(t *testing.T) {
	for _, refused := range []error{net.ErrClosed, syscall.EIO, syscall.EINVAL} {
		c := lateClose{begun: make(chan struct{}), end: make(chan struct{})}
		f := &File{t: c}
		if err := f.IgnoreGone(refused); err != refused {
			t.Errorf("IgnoreGone(%v) of an open file = %v, want the same error", refused, err)
		}
		go f.Close()
		<-c.begun
		gone := make(chan error)
		go func() { gone <- f.Destroyed(func() error { return refused }) }()
		select {
		case err := <-gone:
			t.Errorf("IgnoreGone(%v) returned while the file is being closed: %v", refused, err)
			close(c.end)
			continue
		case <-time.After(20 * time.Millisecond):
		}
		close(c.end)
		if err := <-gone; err != nil {
			t.Errorf("IgnoreGone(%v) of a closed file = %v, want nil", refused, err)
		}
	}
}

// maps is a device that records the lengths of unmapped mappings, and refuses one length.
type maps struct {
	Transport
	refused  int
	unmapped []int // lengths
}

func (m *maps) Mmap(_ int64, length int) ([]byte, error) { return make([]byte, length), nil }

func (m *maps) Munmap(b []byte) error {
	if len(b) == m.refused {
		return syscall.ENOMEM
	}
	m.unmapped = append(m.unmapped, len(b))
	return nil
}

// MunmapPair does nothing, as for two mappings that are not adjacent.
func (m *maps) MunmapPair(a, b []byte) (bool, error) { return false, nil }

// TestClosePairHalf closes two mappings, the second of which cannot be unmapped at first. The
// first one must not be unmapped twice, because another mapping may have its address by then.
func TestClosePairHalf(t *testing.T) {
	m := &maps{refused: 2}
	f := &File{t: m}
	a, err := f.Mmap(0, 1)
	if err != nil {
		t.Fatalf("File.Mmap(0, 1): %v", err)
	}
	b, err := f.Mmap(0, 2)
	if err != nil {
		t.Fatalf("File.Mmap(0, 2): %v", err)
	}
	if err := f.ClosePair(a, b); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("ClosePair with a refused unmap = %v, want ENOMEM", err)
	}
	m.refused = 0
	for range 2 {
		if err := f.ClosePair(a, b); err != nil {
			t.Errorf("File.ClosePair: %v", err)
		}
	}
	if !slices.Equal(m.unmapped, []int{1, 2}) {
		t.Errorf("unmapped lengths = %v, want [1 2]", m.unmapped)
	}
	if f.mappings != nil {
		t.Errorf("mappings of the file = %v, want nil", f.mappings)
	}
}

// readOnlyMaps is a device with memory that it maps for reading only.
type readOnlyMaps struct{ maps }

func (m *readOnlyMaps) MmapReadOnly(_ int64, length int) ([]byte, error) {
	return make([]byte, length+100), nil
}

// TestMmapReadOnly maps memory of a transport with and without mappings for reading only.
func TestMmapReadOnly(t *testing.T) {
	for _, c := range []struct {
		t        Transport
		readOnly int // bytes
	}{{&readOnlyMaps{}, 103}, {&maps{}, 3}} {
		f := &File{t: c.t}
		r, err := f.MmapReadOnly(0, 3)
		if err != nil || len(r.Bytes()) != c.readOnly {
			t.Fatalf("MmapReadOnly of %T = %d bytes, %v, want %d, nil", c.t, len(r.Bytes()), err, c.readOnly)
		}
		w, err := f.Mmap(0, 3)
		if err != nil || len(w.Bytes()) != 3 {
			t.Fatalf("Mmap of %T = %d bytes, %v, want 3, nil", c.t, len(w.Bytes()), err)
		}
		if err := f.ClosePair(r, w); err != nil || f.mappings != nil {
			t.Errorf("ClosePair = %v, mappings left = %v, want nil, nil", err, f.mappings)
		}
	}
}
