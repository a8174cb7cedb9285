// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// The constructors of attributes, so that a command reads like its declaration
// in the kernel.

// in passes the bytes of v. They must not hold the address of Go memory that
// moves, which is what v being a pointer to a heap object ensures.
func in[T any](id uint16, v *T) Attr { return Attr{ID: id, Kind: AttrIn, Buf: abi.Bytes(v)} }

// out has v filled.
func out[T any](id uint16, v *T) Attr { return Attr{ID: id, Kind: AttrOut, Buf: abi.Bytes(v)} }

// outBytes has b filled.
func outBytes(id uint16, b []byte) Attr { return Attr{ID: id, Kind: AttrOut, Buf: b} }

// u32 passes a number of 32 bits.
func u32(id uint16, v uint32) Attr { return in(id, &v) }

// u64 passes a number of 64 bits, or a constant of an enum.
func u64(id uint16, v uint64) Attr { return in(id, &v) }

func handle(id uint16, h uint32) Attr { return Attr{ID: id, Kind: AttrHandle, Value: uint64(h)} }

func newHandle(id uint16) Attr { return Attr{ID: id, Kind: AttrNewHandle} }

func fd(id uint16, fd uintptr) Attr { return Attr{ID: id, Kind: AttrFD, Value: uint64(fd)} }

// Driver is a driver's own part of a command: In is read by the kernel driver
// after the command's own input, Out is filled. Nil fields are left out.
type Driver struct {
	In  []byte
	Out []byte
}

// append adds the driver's part to the attributes of a request.
func (d Driver) append(attrs []Attr) []Attr {
	if d.In != nil {
		attrs = append(attrs, Attr{ID: abi.UVERBS_ATTR_UHW_IN, Kind: AttrIn, Buf: d.In})
	}
	if d.Out != nil {
		attrs = append(attrs, Attr{ID: abi.UVERBS_ATTR_UHW_OUT, Kind: AttrOut, Buf: d.Out})
	}
	return attrs
}

// ioctl runs one method of an object.
func (f *File) ioctl(object, method uint16, attrs ...Attr) (*Request, error) {
	req := &Request{Object: object, Method: method, Attrs: attrs}
	return req, f.t.Ioctl(req)
}

// invokeWrite runs a command that has no method of its own: cmd, the struct of
// rdma/ib_user_verbs.h without header, is its input and resp, which may be nil,
// its answer.
func (f *File) invokeWrite(command uint32, cmd, resp []byte, drv Driver) error {
	attrs := []Attr{
		u64(abi.UVERBS_ATTR_WRITE_CMD, uint64(command)),
		{ID: abi.UVERBS_ATTR_CORE_IN, Kind: AttrIn, Buf: cmd},
	}
	if resp != nil {
		attrs = append(attrs, outBytes(abi.UVERBS_ATTR_CORE_OUT, resp))
	}
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE, drv.append(attrs)...)
	return err
}
