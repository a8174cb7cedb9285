// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"purerdma/abi"
)

// inlineAttr is the length up to which the kernel takes an input from the
// attribute itself.
const inlineAttr = 8

// ioctlRequest encodes req, runs it and decodes what the kernel wrote into the
// attributes themselves.
//
// An attribute holds an address in a number, which the garbage collector does
// not see; so every buffer is pinned for the length of the call. Pinning also
// moves to the heap what would otherwise be on a stack, and the addresses that
// the buffers themselves hold are of type abi.Pointer, which it does see.
func ioctlRequest(fd int, driver abi.DriverID, req *Request) error {
	var pin runtime.Pinner
	defer pin.Unpin()

	hdrSize := abi.Size[abi.UverbsIoctlHdr]()
	attrSize := abi.Size[abi.UverbsAttr]()
	size := hdrSize + attrSize*len(req.Attrs)
	words := make([]uint64, size/8)
	base := unsafe.Pointer(unsafe.SliceData(words))
	*(*abi.UverbsIoctlHdr)(base) = abi.UverbsIoctlHdr{
		Length:   uint16(size),
		ObjectID: req.Object,
		MethodID: req.Method,
		NumAttrs: uint16(len(req.Attrs)),
		DriverID: uint32(driver),
	}
	wire := unsafe.Slice((*abi.UverbsAttr)(unsafe.Add(base, hdrSize)), len(req.Attrs))
	for i := range req.Attrs {
		a, w := &req.Attrs[i], &wire[i]
		w.AttrID, w.Flags, w.ElemID = a.ID, abi.UVERBS_ATTR_F_MANDATORY, a.Elem
		switch a.Kind {
		case AttrIn, AttrOut:
			if len(a.Buf) > 1<<16-1 {
				return unix.EINVAL
			}
			w.Len = uint16(len(a.Buf))
			if a.Kind == AttrIn && len(a.Buf) <= inlineAttr {
				copy(abi.Bytes(&w.Data), a.Buf)
				continue
			}
			if len(a.Buf) == 0 {
				continue
			}
			p := unsafe.SliceData(a.Buf)
			pin.Pin(p)
			w.Data = uint64(uintptr(unsafe.Pointer(p)))
		default:
			w.Data = a.Value
		}
	}
	for {
		var errno unix.Errno
		if quick(driver, req) {
			_, _, errno = unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), abi.RDMA_VERBS_IOCTL, uintptr(base))
		} else {
			_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), abi.RDMA_VERBS_IOCTL, uintptr(base))
		}
		if errno == unix.EINTR {
			continue
		}
		runtime.KeepAlive(req)
		if errno != 0 {
			return errno
		}
		break
	}
	for i := range req.Attrs {
		switch a := &req.Attrs[i]; a.Kind {
		case AttrNewHandle, AttrNewFD:
			a.Value = wire[i].Data
		case AttrOut:
			// What the kernel did not say it wrote is not an answer.
			if wire[i].Flags&abi.UVERBS_ATTR_F_VALID_OUTPUT == 0 {
				clear(a.Buf)
			}
		}
	}
	return nil
}

// quick reports whether a request is computation in the kernel that waits for no
// hardware: what rxe does to a PD, a CQ or a QP. Then the scheduler does not hear of it.
// Told of a system call that takes longer than some 20 microseconds it has another
// thread take over, which costs more than the call, and a thread.
func quick(driver abi.DriverID, req *Request) bool {
	if driver != abi.RDMA_DRIVER_RXE {
		return false
	}
	switch req.Object {
	case abi.UVERBS_OBJECT_PD, abi.UVERBS_OBJECT_CQ, abi.UVERBS_OBJECT_QP:
		return true
	}
	code, ok := req.command()
	return ok && (code == abi.IB_USER_VERBS_CMD_MODIFY_QP || code == abi.IB_USER_VERBS_CMD_ALLOC_PD)
}
