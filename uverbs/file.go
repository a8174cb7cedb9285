// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/internal/cdev"
	"purerdma/internal/leak"
)

// File is an open verbs device. It has one context of the kernel once GetContext has run. Its
// methods may be called concurrently. Their errors are bare: an errno, or net.ErrClosed after
// Close.
type File struct {
	t      Transport
	info   DeviceInfo
	closed atomic.Bool

	mu       sync.Mutex
	context  ContextInfo // of GetContext
	mappings *Mapping    // head of the list of open mappings
	channels map[eventChannel]struct{}

	closing  sync.Mutex // held while the event files are closed. Guards closeErr
	closeErr error
}

// eventChannel is a CompChannel or an AsyncChannel.
type eventChannel interface{ file() *cdev.File }

// Open opens a device of k. No command has been run on it.
func Open(k Kernel, info DeviceInfo) (*File, error) {
	t, err := k.Open(info)
	if err != nil {
		return nil, err
	}
	return &File{
		t:        t,
		info:     info,
		channels: make(map[eventChannel]struct{}),
	}, nil
}

// Info returns the device that the file was opened for.
func (f *File) Info() DeviceInfo { return f.info }

// Context returns the result of GetContext, the zero ContextInfo before it.
func (f *File) Context() ContextInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.context
}

// Closed reports whether Close was called. It is cheap. If a goroutine reads a mapping and then
// finds Closed false, it has not read the zeros that Close puts there.
func (f *File) Closed() bool { return f.closed.Load() }

// IgnoreGone replaces an error of destroying an object of a closed file by nil, because the kernel
// has destroyed the object with the context. It first waits until the context has ended, because
// until then the device may still reach the object's memory. It does not wait for the readers of
// event files, so the caller may hold the lock of a CQ.
func (f *File) IgnoreGone(err error) error {
	if err != nil && f.Closed() {
		f.endContext() // another goroutine may have started it and gets the error
		return nil
	}
	return err
}

// busyFor is the time for which Destroyed tries. It is longer than a doorbell of a driver that
// sends in the caller's context.
const busyFor = time.Second

// Destroyed destroys an object without users, by a call of destroy. The kernel also returns EBUSY
// while another command on the object runs, such as an earlier doorbell. In that case Destroyed
// tries again for a while. With a closed file it returns the result of IgnoreGone.
func (f *File) Destroyed(destroy func() error) error {
	err := destroy()
	if errors.Is(err, syscall.EBUSY) {
		for end := time.Now().Add(busyFor); errors.Is(err, syscall.EBUSY) && time.Now().Before(end); err = destroy() {
			time.Sleep(time.Millisecond)
		}
	}
	return f.IgnoreGone(err)
}

// Close ends the context with all its objects. It may be called at any time, and more than once,
// from any goroutine, even while mappings are in use. It first replaces the mappings by zeros. A
// mapping also holds the device open, and the removal of a driver waits for the last holder. The
// owner of a mapping or a completion channel still closes it.
//
// It waits until the readers of event files have left. So the caller must not be such a reader, and
// must hold no lock that a reader may need, such as the lock of a queue. See End.
func (f *File) Close() error {
	err := f.End()
	f.closing.Lock()
	defer f.closing.Unlock()
	return errors.Join(err, f.closeErr)
}

// End is Close for callers that may be readers of event files, or hold locks that readers need. The
// context has ended when End returns. The event files are closed in the background, after their
// readers have left.
func (f *File) End() error {
	err := f.endContext()
	f.mu.Lock()
	defer f.mu.Unlock()
	channels := f.channels
	f.channels = nil // adopt takes no more
	if len(channels) > 0 {
		f.closing.Lock() // never waits, because this happens once
		go func() {
			defer f.closing.Unlock()
			var errs []error
			for c := range channels {
				errs = append(errs, c.file().Close())
			}
			f.closeErr = errors.Join(errs...)
		}()
	}
	return err
}

// endContext closes the device. It returns when the device is closed, even if another goroutine
// closes it.
func (f *File) endContext() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed.Swap(true) {
		return nil
	}
	var errs []error
	for m := f.mappings; m != nil; m = m.next {
		errs = append(errs, f.t.Replace(m.b))
	}
	return errors.Join(append(errs, f.t.Close())...)
}

// Mapping is memory that the process shares with the device's driver. It must not be
// copied while it is open.
type Mapping struct {
	f    *File
	b    []byte // nil once it is closed
	leak *leak.Entry

	prev, next *Mapping // of the file's
}

// Mmap maps length bytes of the device at an offset that a command's answer named.
func (f *File) Mmap(offset int64, length int) (*Mapping, error) {
	m := new(Mapping)
	if err := m.Map(f, offset, length); err != nil {
		return nil, err
	}
	return m, nil
}

// MmapReadOnly is Mmap for memory that only the kernel writes. A store to the mapping is a fault of the process.
func (f *File) MmapReadOnly(offset int64, length int) (*Mapping, error) {
	m := new(Mapping)
	if err := m.mmap(f, offset, length, true); err != nil {
		return nil, err
	}
	return m, nil
}

// Map is Mmap into a Mapping of the caller, a new one or a closed one. A queue that contains its
// Mapping needs one allocation less.
func (m *Mapping) Map(f *File, offset int64, length int) error {
	return m.mmap(f, offset, length, false)
}

func (m *Mapping) mmap(f *File, offset int64, length int, readOnly bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed.Load() {
		return net.ErrClosed
	}
	b, err := f.mmap(offset, length, readOnly)
	if err != nil {
		return err
	}
	*m = Mapping{f: f, b: b, leak: leak.Track("mapping", f.info.Name), next: f.mappings}
	if m.next != nil {
		m.next.prev = m
	}
	f.mappings = m
	return nil
}

func (f *File) mmap(offset int64, length int, readOnly bool) ([]byte, error) {
	if t, ok := f.t.(ReadOnlyMapper); ok && readOnly {
		return t.MmapReadOnly(offset, length)
	}
	return f.t.Mmap(offset, length)
}

// Bytes returns the memory, nil if the Mapping is not open. It must not be touched after Close of
// the Mapping. After Close of the File it holds zeros and the later stores of the process.
func (m *Mapping) Bytes() []byte { return m.b }

// Close unmaps the memory. It may be called more than once.
func (m *Mapping) Close() error {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	return m.close()
}

// close is Close for a caller that holds the file's lock.
func (m *Mapping) close() error {
	if !m.open() {
		return nil
	}
	if err := m.f.t.Munmap(m.b); err != nil {
		return err
	}
	m.closed()
	return nil
}

func (m *Mapping) open() bool { return m.b != nil }

func (m *Mapping) closed() {
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		m.f.mappings = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	}
	m.b, m.prev, m.next = nil, nil, nil
	m.leak.Done()
}

// pairUnmapper is a Transport that unmaps two mappings in less time than one by one.
type pairUnmapper interface {
	// MunmapPair ends both mappings. If ok is false or there is an error, it ends neither.
	MunmapPair(a, b []byte) (ok bool, err error)
}

// ClosePair closes two mappings of the file.
func (f *File) ClosePair(a, b *Mapping) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, can := f.t.(pairUnmapper); can && a != b && a.open() && b.open() {
		ok, err := t.MunmapPair(a.b, b.b)
		if err != nil {
			return err
		}
		if ok {
			a.closed()
			b.closed()
			return nil
		}
	}
	return errors.Join(a.close(), b.close())
}
