// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// The constructors of attributes, which make a command read like its declaration in the kernel.

// in passes the bytes of v. They must not hold the address of Go memory that moves. v is a pointer
// to a heap object, which ensures that.
func in[T any](id uint16, v *T) Attr { return Attr{ID: id, Kind: AttrIn, Buf: abi.Bytes(v)} }

// out makes the kernel fill v.
func out[T any](id uint16, v *T) Attr { return Attr{ID: id, Kind: AttrOut, Buf: abi.Bytes(v)} }

// outBytes makes the kernel fill b.
func outBytes(id uint16, b []byte) Attr { return Attr{ID: id, Kind: AttrOut, Buf: b} }

// u32 passes a number of 32 bits.
func u32(id uint16, v uint32) Attr { return in(id, &v) }

// u64 passes a number of 64 bits, or a constant of an enum.
func u64(id uint16, v uint64) Attr { return in(id, &v) }

func handle(id uint16, h uint32) Attr { return Attr{ID: id, Kind: AttrHandle, Value: uint64(h)} }

func newHandle(id uint16) Attr { return Attr{ID: id, Kind: AttrNewHandle} }

func fd(id uint16, fd uintptr) Attr { return Attr{ID: id, Kind: AttrFD, Value: uint64(fd)} }

// bytesOf appends the bytes of mirrored structs, which hold no addresses.
func bytesOf[T any](b []byte, list []T) []byte {
	for i := range list {
		b = append(b, abi.Bytes(&list[i])...)
	}
	return b
}

// Driver is a driver's own part of a command. The kernel driver reads In after the command's own
// input, and fills Out. Nil fields are omitted. Attrs are attributes of the driver, for commands
// that are methods.
type Driver struct {
	In    []byte
	Out   []byte
	Attrs []Attr
}

// append adds the driver's part to the attributes of a request.
func (d Driver) append(attrs []Attr) []Attr {
	if d.In != nil {
		attrs = append(attrs, Attr{ID: abi.UVERBS_ATTR_UHW_IN, Kind: AttrIn, Buf: d.In})
	}
	if d.Out != nil {
		attrs = append(attrs, Attr{ID: abi.UVERBS_ATTR_UHW_OUT, Kind: AttrOut, Buf: d.Out})
	}
	return append(attrs, d.Attrs...)
}

// ioctl runs one method of an object.
func (f *File) ioctl(object, method uint16, attrs ...Attr) (*Request, error) {
	req := &Request{Object: object, Method: method, Attrs: attrs}
	return req, f.Ioctl(req)
}

// create is ioctl for a method whose first attribute is the handle of a new
// object, which it returns.
func (f *File) create(object, method uint16, attrs ...Attr) (uint32, error) {
	req, err := f.ioctl(object, method, attrs...)
	if err != nil {
		return 0, err
	}
	return uint32(req.Attrs[0].Value), nil
}

// destroy runs a method whose only attribute is a handle.
func (f *File) destroy(object, method, id uint16, h uint32) error {
	req := newRequest(object, method)
	defer req.free()
	req.add(handle(id, h))
	return f.Ioctl(&req.Request)
}

// Ioctl runs a method that this package has no function for, such as a driver's own, with ids of at
// least abi.UVERBS_ID_DRIVER_NS. If the package has the declaration of the method, it first
// compares the request with it (a *RequestError). Outputs are zeros if the kernel filled nothing,
// or refused the request.
func (f *File) Ioctl(req *Request) error {
	if m := MethodOf(req.Object, req.Method); m != nil {
		if err := m.Check(req); err != nil {
			return err
		}
	}
	return f.run(req)
}

// run sends a request to the kernel that agrees with the declaration of its method.
func (f *File) run(req *Request) error {
	req.clearOutputs()
	if err := f.t.Ioctl(req); err != nil {
		req.clearOutputs()
		return requestError(req, err)
	}
	return nil
}

func (r *Request) clearOutputs() {
	for i := range r.Attrs {
		if a := &r.Attrs[i]; a.Kind == AttrOut {
			clear(a.Buf)
		}
	}
}

// InvokeWrite runs one of the commands of rdma/ib_user_verbs.h (UVERBS_METHOD_INVOKE_WRITE). cmd is
// its struct without header. resp, which may be nil, receives its response. An address in cmd must
// be an abi.Pointer. If a command also has a method of its own, as CREATE_CQ has, use the method.
func (f *File) InvokeWrite(command uint32, cmd, resp []byte, drv Driver) error {
	req := newRequest(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
	defer req.free()
	req.number(abi.UVERBS_ATTR_WRITE_CMD, uint64(command))
	// Not a copy, because it may hold addresses.
	req.add(Attr{ID: abi.UVERBS_ATTR_CORE_IN, Kind: AttrIn, Buf: cmd})
	if resp != nil {
		req.add(outBytes(abi.UVERBS_ATTR_CORE_OUT, resp))
	}
	req.Attrs = drv.append(req.Attrs)
	return f.Ioctl(&req.Request)
}

// runCommandResp runs a command of rdma/ib_user_verbs.h and returns its response, which is all zeros
// with an error.
func runCommandResp[R, C any](f *File, command uint32, cmd *C, drv Driver) (R, error) {
	var resp R
	err := f.InvokeWrite(command, abi.Bytes(cmd), abi.Bytes(&resp), drv)
	return resp, err
}

// runCommand runs a command of rdma/ib_user_verbs.h without a response.
func runCommand[C any](f *File, command uint32, cmd *C, drv Driver) error {
	return f.InvokeWrite(command, abi.Bytes(cmd), nil, drv)
}

// ex is the number of an extended command.
const ex = abi.IB_USER_VERBS_CMD_FLAG_EXTENDED
