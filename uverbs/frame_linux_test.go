// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"bytes"
	"encoding/binary"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"purerdma/abi"
)

// TestFrame checks a request that reuses the memory of earlier requests. It must contain none
// of their bytes. It keeps a pointer to each of its buffers until free. Output that the kernel
// did not report as written must be zero.
func TestFrame(t *testing.T) {
	f := new(frame)
	f.grow(64)
	for i := range f.words {
		f.words[i] = ^uint64(0) // of an earlier request
	}
	in, said, unsaid := bytes.Repeat([]byte{1}, 9), bytes.Repeat([]byte{2}, 4), bytes.Repeat([]byte{3}, 16)
	req := &Request{Object: 7, Method: 8, Attrs: []Attr{
		{ID: 1, Kind: AttrNewHandle, Value: 0x11},
		{ID: 2, Kind: AttrIn, Buf: []byte{0xaa, 0xbb, 0xcc}}, // within the attribute
		{ID: 3, Kind: AttrIn, Buf: in, Elem: 5},
		{ID: 4, Kind: AttrIn, Buf: nil},
		{ID: 5, Kind: AttrOut, Buf: said},
		{ID: 6, Kind: AttrOut, Buf: unsaid},
		{ID: 7, Kind: AttrOut, Buf: []byte{}},
		{ID: 8, Kind: AttrFD, Value: 9},
	}}
	base, err := f.encode(abi.RDMA_DRIVER_SIW, req)
	if err != nil {
		t.Fatalf("frame.encode: %v", err)
	}
	address := func(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
	var want []byte
	for _, v := range []any{
		abi.UverbsIoctlHdr{Length: 24 + 8*16, ObjectID: 7, MethodID: 8, NumAttrs: 8, DriverID: uint32(abi.RDMA_DRIVER_SIW)},
		abi.UverbsAttr{AttrID: 1, Flags: 1, Data: 0x11},
		abi.UverbsAttr{AttrID: 2, Flags: 1, Len: 3, Data: binary.NativeEndian.Uint64([]byte{0xaa, 0xbb, 0xcc, 0, 0, 0, 0, 0})},
		abi.UverbsAttr{AttrID: 3, Flags: 1, Len: 9, ElemID: 5, Data: address(in)},
		abi.UverbsAttr{AttrID: 4, Flags: 1},
		abi.UverbsAttr{AttrID: 5, Flags: 1, Len: 4, Data: address(said)},
		abi.UverbsAttr{AttrID: 6, Flags: 1, Len: 16, Data: address(unsaid)},
		abi.UverbsAttr{AttrID: 7, Flags: 1},
		abi.UverbsAttr{AttrID: 8, Flags: 1, Data: 9},
	} {
		switch v := v.(type) {
		case abi.UverbsIoctlHdr:
			want = append(want, abi.Bytes(&v)...)
		case abi.UverbsAttr:
			want = append(want, abi.Bytes(&v)...)
		}
	}
	if got := unsafe.Slice((*byte)(base), len(want)); !bytes.Equal(got, want) {
		t.Errorf("encode =\n%x, want\n%x", got, want)
	}
	held := []unsafe.Pointer{unsafe.Pointer(&in[0]), unsafe.Pointer(&said[0]), unsafe.Pointer(&unsaid[0])}
	if !slices.Equal(f.keep, held) {
		t.Errorf("%d buffers kept, want %d", len(f.keep), len(held))
	}

	wire := f.attrs(len(req.Attrs))
	wire[0].Data, wire[4].Flags = 0x22, wire[4].Flags|abi.UVERBS_ATTR_F_VALID_OUTPUT
	f.decode(req)
	if req.Attrs[0].Value != 0x22 || !bytes.Equal(said, []byte{2, 2, 2, 2}) || !bytes.Equal(unsaid, make([]byte, 16)) {
		t.Errorf("handle %#x, outputs %x and %x, want 0x22, 2 in each byte, and zeros", req.Attrs[0].Value, said, unsaid)
	}

	keep := f.keep
	f.free()
	for i, p := range keep {
		if p != nil {
			t.Errorf("buffer %d is kept after free", i)
		}
	}
	if len(f.keep) != 0 {
		t.Errorf("%d kept buffers after free, want 0", len(f.keep))
	}
	if a, b := frames.Get(), frames.Get(); a == b {
		t.Error("frames.Get returned the same frame twice")
	}
}

// TestFrameTooLong checks that an attribute that is too long for the 16-bit length field is
// refused, not truncated.
func TestFrameTooLong(t *testing.T) {
	for _, req := range []*Request{
		{Attrs: make([]Attr, 1<<12)},
		{Attrs: make([]Attr, 1<<16)},
		{Attrs: []Attr{{Kind: AttrIn, Buf: make([]byte, 1<<16)}}},
	} {
		if err := ioctlRequest(-1, abi.RDMA_DRIVER_RXE, req); err != unix.EINVAL {
			t.Errorf("%d attributes: ioctlRequest = %v, want EINVAL", len(req.Attrs), err)
		}
	}
	if err := ioctlRequest(-1, abi.RDMA_DRIVER_RXE, &Request{Attrs: make([]Attr, 4000)}); err != syscall.EBADF {
		t.Errorf("ioctlRequest with 4000 attributes = %v, want EBADF", err)
	}
}
