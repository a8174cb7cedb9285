// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/internal/cdev"
)

// inlineAttr is the length up to which the kernel takes an input from the
// attribute itself.
const inlineAttr = 8

var (
	hdrSize  = abi.Size[abi.UverbsIoctlHdr]()
	attrSize = abi.Size[abi.UverbsAttr]()
)

// frame is a request in the kernel's format. It is reused.
type frame struct {
	words []uint64
	keep  []unsafe.Pointer // what addresses among the words point to
}

var frames = sync.Pool{New: func() any { return new(frame) }}

// grow makes room for n words, of unknown content, and returns their address.
func (f *frame) grow(n int) unsafe.Pointer {
	f.words = slices.Grow(f.words[:0], n)[:n]
	return unsafe.Pointer(unsafe.SliceData(f.words))
}

// attrs returns the n attributes, which follow the header.
func (f *frame) attrs(n int) []abi.UverbsAttr {
	return unsafe.Slice((*abi.UverbsAttr)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(f.words)), hdrSize)), n)
}

func (f *frame) free() {
	clear(f.keep)
	f.keep = f.keep[:0]
	frames.Put(f)
}

// ioctlRequest encodes req, runs it and decodes the outputs that the kernel wrote into the
// attributes themselves.
func ioctlRequest(fd int, driver abi.DriverID, req *Request) error {
	f := frames.Get().(*frame)
	defer f.free()
	base, err := f.encode(driver, req)
	if err != nil {
		return err
	}
	mode := mode(driver, req)
	for err = unix.EINTR; err == unix.EINTR; {
		err = cdev.Ioctl(uintptr(fd), abi.RDMA_VERBS_IOCTL, base, mode)
	}
	runtime.KeepAlive(f)
	if err != nil {
		return err
	}
	f.decode(req)
	return nil
}

// encode writes the request in wire format and returns its address.
//
// An attribute holds an address in a number, which is invisible to the garbage collector. Therefore
// a pointer to every buffer is kept next to it until free. The pointer also moves a buffer from the
// stack to the heap, where nothing moves. The addresses inside the buffers are of type abi.Pointer,
// which is visible to the collector.
func (f *frame) encode(driver abi.DriverID, req *Request) (base unsafe.Pointer, err error) {
	size := hdrSize + attrSize*len(req.Attrs)
	if size > maxAttr {
		return nil, unix.EINVAL // the header has 16 bits for it
	}
	base = f.grow(size / 8)
	*(*abi.UverbsIoctlHdr)(base) = abi.UverbsIoctlHdr{
		Length:   uint16(size),
		ObjectID: req.Object,
		MethodID: req.Method,
		NumAttrs: uint16(len(req.Attrs)),
		DriverID: uint32(driver),
	}
	wire := f.attrs(len(req.Attrs))
	for i := range req.Attrs {
		a, w := &req.Attrs[i], &wire[i]
		*w = abi.UverbsAttr{AttrID: a.ID, Flags: abi.UVERBS_ATTR_F_MANDATORY, ElemID: a.Elem}
		switch a.Kind {
		case AttrIn, AttrOut:
			if len(a.Buf) > maxAttr {
				return nil, unix.EINVAL
			}
			w.Len = uint16(len(a.Buf))
			if a.Kind == AttrIn && len(a.Buf) <= inlineAttr {
				copy(abi.Bytes(&w.Data), a.Buf)
				continue
			}
			if len(a.Buf) == 0 {
				continue
			}
			p := unsafe.Pointer(unsafe.SliceData(a.Buf))
			f.keep = append(f.keep, p)
			w.Data = uint64(uintptr(p))
		default:
			w.Data = a.Value
		}
	}
	return base, nil
}

// decode reads the outputs that the kernel wrote into the attributes.
func (f *frame) decode(req *Request) {
	wire := f.attrs(len(req.Attrs))
	for i := range req.Attrs {
		switch a := &req.Attrs[i]; a.Kind {
		case AttrNewHandle, AttrNewFD:
			a.Value = wire[i].Data
		case AttrOut:
			// Without this flag, the kernel has written no output.
			if wire[i].Flags&abi.UVERBS_ATTR_F_VALID_OUTPUT == 0 {
				clear(a.Buf)
			}
		}
	}
}

// rawMR is the largest size, in bytes, of memory whose registration is a short computation. Its
// pages are brought in and pinned, as if the program touched each.
const rawMR = 64 << 10

// mode returns how the system call of a request is made. If the driver does not block in commands,
// commands that only compute are raw system calls. They are the commands on a PD, a CQ or a QP,
// completion channels, and the registration of a little memory. All others may take long.
func mode(driver abi.DriverID, req *Request) cdev.Mode {
	command := cdev.CallsOf(driver).Command
	switch req.Object {
	case abi.UVERBS_OBJECT_PD, abi.UVERBS_OBJECT_CQ, abi.UVERBS_OBJECT_QP:
		return command
	}
	code, ok := req.command()
	if !ok {
		return cdev.Ordinary
	}
	switch code {
	case abi.IB_USER_VERBS_CMD_ALLOC_PD, abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, abi.IB_USER_VERBS_CMD_MODIFY_QP:
		return command
	case abi.IB_USER_VERBS_CMD_REG_MR:
		in := req.Find(abi.UVERBS_ATTR_CORE_IN)
		if in != nil && len(in.Buf) >= abi.Size[abi.UverbsRegMR]() && abi.View[abi.UverbsRegMR](in.Buf).Length <= rawMR {
			return command
		}
	}
	return cdev.Ordinary
}
