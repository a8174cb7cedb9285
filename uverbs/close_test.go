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

// lateClose is a device that closes when the test says so.
type lateClose struct {
	Transport
	begun, end chan struct{}
}

func (c lateClose) Close() error {
	close(c.begun)
	<-c.end
	return nil
}

// TestGoneWhenClosed: an object counts as destroyed with its context when the context
// has gone, not when somebody has begun to close it: until then the device may write
// to its memory.
func TestGoneWhenClosed(t *testing.T) {
	for _, refused := range []error{net.ErrClosed, syscall.EIO, syscall.EINVAL} {
		c := lateClose{begun: make(chan struct{}), end: make(chan struct{})}
		f := &File{t: c}
		if err := f.IgnoreGone(refused); err != refused {
			t.Errorf("%v of an open file became %v", refused, err)
		}
		go f.Close()
		<-c.begun
		gone := make(chan error)
		go func() { gone <- f.Destroyed(func() error { return refused }) }()
		select {
		case err := <-gone:
			t.Errorf("%v: destroyed while the file is being closed: %v", refused, err)
			close(c.end)
			continue
		case <-time.After(20 * time.Millisecond):
		}
		close(c.end)
		if err := <-gone; err != nil {
			t.Error(err)
		}
	}
}

// maps is a device that notes what is unmapped, and refuses one length.
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

// MunmapPair does as a device does whose two mappings do not lie side by side.
func (m *maps) MunmapPair(a, b []byte) (bool, error) { return false, nil }

// TestClosePairHalf: of two mappings of which only one can be ended the other is not
// ended once more, when something else may be in its place.
func TestClosePairHalf(t *testing.T) {
	m := &maps{refused: 2}
	f := &File{t: m}
	a, err := f.Mmap(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Mmap(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ClosePair(a, b); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("one is refused: %v", err)
	}
	m.refused = 0
	for range 2 {
		if err := f.ClosePair(a, b); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(m.unmapped, []int{1, 2}) {
		t.Errorf("unmapped %v", m.unmapped)
	}
	if f.mappings != nil {
		t.Error("the file has mappings")
	}
}
