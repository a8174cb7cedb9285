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

// TestFrame: a request that follows others in their memory has none of their bytes,
// of what it points to everything is held until free, and what the kernel did
// not say it wrote is zero.
func TestFrame(t *testing.T) {
	f := new(frame)
	f.grow(64)
	for i := range f.words {
		f.words[i] = ^uint64(0) // of a request before
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
		t.Fatal(err)
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
		t.Errorf("the kernel reads\n%x, want\n%x", got, want)
	}
	held := []unsafe.Pointer{unsafe.Pointer(&in[0]), unsafe.Pointer(&said[0]), unsafe.Pointer(&unsaid[0])}
	if !slices.Equal(f.keep, held) {
		t.Errorf("%d buffers are held, want %d", len(f.keep), len(held))
	}

	wire := f.attrs(len(req.Attrs))
	wire[0].Data, wire[4].Flags = 0x22, wire[4].Flags|abi.UVERBS_ATTR_F_VALID_OUTPUT
	f.decode(req)
	if req.Attrs[0].Value != 0x22 || !bytes.Equal(said, []byte{2, 2, 2, 2}) || !bytes.Equal(unsaid, make([]byte, 16)) {
		t.Errorf("handle %#x, answers %x, %x", req.Attrs[0].Value, said, unsaid)
	}

	keep := f.keep
	f.free()
	for i, p := range keep {
		if p != nil {
			t.Errorf("buffer %d is held after free", i)
		}
	}
	if len(f.keep) != 0 {
		t.Errorf("%d places of buffers are left for the next request", len(f.keep))
	}
	if a, b := frames.Get(), frames.Get(); a == b {
		t.Error("one frame for two")
	}
}

// TestFrameTooLong: what the 16 bits of a length do not hold is refused, and not given
// as something else.
func TestFrameTooLong(t *testing.T) {
	for _, req := range []*Request{
		{Attrs: make([]Attr, 1<<12)},
		{Attrs: make([]Attr, 1<<16)},
		{Attrs: []Attr{{Kind: AttrIn, Buf: make([]byte, 1<<16)}}},
	} {
		if err := ioctlRequest(-1, abi.RDMA_DRIVER_RXE, req); err != unix.EINVAL {
			t.Errorf("%d attributes: %v", len(req.Attrs), err)
		}
	}
	if err := ioctlRequest(-1, abi.RDMA_DRIVER_RXE, &Request{Attrs: make([]Attr, 4000)}); err != syscall.EBADF {
		t.Errorf("what fits: %v", err)
	}
}
