// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"purerdma/abi"
	"purerdma/uverbs"
)

// sharedPage is the page in which the kernel reports the number of a new address handle.
type sharedPage struct {
	mu      sync.Mutex // held from the command until the number is read
	mapping *uverbs.Mapping
}

func (s *sharedPage) open(f *uverbs.File, pageSize int) (err error) {
	if s.mapping, err = f.Mmap(0, pageSize); err != nil {
		return fmt.Errorf("map shared page: %w", err)
	}
	return nil
}

func (s *sharedPage) close() error { return closeMapping(&s.mapping) }

// closeMapping closes a mapping, which may be nil.
func closeMapping(m **uverbs.Mapping) error {
	if *m == nil {
		return nil
	}
	err := (*m).Close()
	*m = nil
	return err
}

// base returns the first byte of a mapping.
func base(m *uverbs.Mapping) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.Bytes())) }

// allocPage makes a page object of a kind, and maps it. It returns the number of the page.
func allocPage(f *uverbs.File, kind uint64, pageSize int, readOnly bool) (*uverbs.Mapping, uint32, error) {
	var offset uint64
	var length, number uint32
	err := f.Ioctl(&uverbs.Request{
		Object: abi.BNXT_RE_OBJECT_ALLOC_PAGE,
		Method: abi.BNXT_RE_METHOD_ALLOC_PAGE,
		Attrs: []uverbs.Attr{
			{ID: abi.BNXT_RE_ALLOC_PAGE_HANDLE, Kind: uverbs.AttrNewHandle},
			{ID: abi.BNXT_RE_ALLOC_PAGE_TYPE, Kind: uverbs.AttrIn, Buf: abi.Bytes(&kind)},
			{ID: abi.BNXT_RE_ALLOC_PAGE_MMAP_OFFSET, Kind: uverbs.AttrOut, Buf: abi.Bytes(&offset)},
			{ID: abi.BNXT_RE_ALLOC_PAGE_MMAP_LENGTH, Kind: uverbs.AttrOut, Buf: abi.Bytes(&length)},
			{ID: abi.BNXT_RE_ALLOC_PAGE_DPI, Kind: uverbs.AttrOut, Buf: abi.Bytes(&number)},
		},
	})
	if err != nil {
		return nil, 0, err
	}
	m, err := mapPage(f, offset, length, pageSize, readOnly)
	return m, number, err
}

// mapPage maps a page that a response of the kernel names.
func mapPage(f *uverbs.File, offset uint64, length uint32, pageSize int, readOnly bool) (*uverbs.Mapping, error) {
	if int64(offset) < 0 || uint64(length) != uint64(pageSize) {
		return nil, unsupported("a page of %d bytes at %#x", length, offset)
	}
	if readOnly {
		return f.MmapReadOnly(int64(offset), pageSize)
	}
	return f.Mmap(int64(offset), pageSize)
}

// togglePage is a page in which the kernel reports the bits that distinguish the notifications of a CQ or SRQ.
type togglePage struct {
	f       *uverbs.File
	handle  uint64
	mapping *uverbs.Mapping // nil if the device has no such page
	word    *uint32
}

// open maps the page of the queue with a number. kind is BNXT_RE_CQ_TOGGLE_MEM or BNXT_RE_SRQ_TOGGLE_MEM.
func (t *togglePage) open(f *uverbs.File, kind uint64, num uint32, pageSize int) error {
	var offset uint64
	var length, at uint32
	req := &uverbs.Request{
		Object: abi.BNXT_RE_OBJECT_GET_TOGGLE_MEM,
		Method: abi.BNXT_RE_METHOD_GET_TOGGLE_MEM,
		Attrs: []uverbs.Attr{
			{ID: abi.BNXT_RE_TOGGLE_MEM_HANDLE, Kind: uverbs.AttrNewHandle},
			{ID: abi.BNXT_RE_TOGGLE_MEM_TYPE, Kind: uverbs.AttrIn, Buf: abi.Bytes(&kind)},
			{ID: abi.BNXT_RE_TOGGLE_MEM_RES_ID, Kind: uverbs.AttrIn, Buf: abi.Bytes(&num)},
			{ID: abi.BNXT_RE_TOGGLE_MEM_MMAP_PAGE, Kind: uverbs.AttrOut, Buf: abi.Bytes(&offset)},
			{ID: abi.BNXT_RE_TOGGLE_MEM_MMAP_OFFSET, Kind: uverbs.AttrOut, Buf: abi.Bytes(&at)},
			{ID: abi.BNXT_RE_TOGGLE_MEM_MMAP_LENGTH, Kind: uverbs.AttrOut, Buf: abi.Bytes(&length)},
		},
	}
	if err := f.Ioctl(req); err != nil {
		return fmt.Errorf("toggle page: %w", err)
	}
	t.f, t.handle = f, req.Attrs[0].Value
	if at != 0 {
		return errors.Join(unsupported("a toggle word at byte %d", at), t.close())
	}
	m, err := mapPage(f, offset, length, pageSize, true)
	if err != nil {
		return errors.Join(fmt.Errorf("map toggle page: %w", err), t.close())
	}
	t.mapping, t.word = m, (*uint32)(base(m))
	return nil
}

// close unmaps the page, and ends the kernel's object.
func (t *togglePage) close() error {
	if t.f == nil {
		return nil
	}
	t.word = nil
	err := closeMapping(&t.mapping)
	release := t.f.Ioctl(&uverbs.Request{
		Object: abi.BNXT_RE_OBJECT_GET_TOGGLE_MEM,
		Method: abi.BNXT_RE_METHOD_RELEASE_TOGGLE_MEM,
		Attrs:  []uverbs.Attr{{ID: abi.BNXT_RE_RELEASE_TOGGLE_MEM_HANDLE, Kind: uverbs.AttrHandle, Value: t.handle}},
	})
	t.f, release = nil, t.f.IgnoreGone(release)
	return errors.Join(err, release)
}

// toggleMask are the bits of a toggle that a doorbell has room for.
const toggleMask = 3

// bits returns the toggle bits in the place that a doorbell has for them. They are 0 without a toggle page.
func (t *togglePage) bits() uint64 {
	if t.word == nil {
		return 0
	}
	return uint64(atomic.LoadUint32(t.word)&toggleMask) << bellToggle
}
