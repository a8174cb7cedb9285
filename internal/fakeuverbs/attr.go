// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"purerdma/abi"
	"purerdma/uverbs"
)

// Value returns the number or handle in the attribute of a request with this id. It returns 0 if the
// request has no such attribute.
func Value(req *uverbs.Request, id uint16) uint64 {
	a := req.Find(id)
	switch {
	case a == nil:
		return 0
	case a.Kind == uverbs.AttrIn:
		return uverbs.Number(a.Buf)
	}
	return a.Value
}

// Handle returns Value as a handle.
func Handle(req *uverbs.Request, id uint16) uint32 { return uint32(Value(req, id)) }

// Put fills an output up to the size of the program's buffer.
func Put[T any](req *uverbs.Request, id uint16, v *T) {
	if a := req.Find(id); a != nil {
		copy(a.Buf, abi.Bytes(v))
	}
}

// SetHandle stores the handle of a new object in the request's output.
func SetHandle(req *uverbs.Request, id uint16, handle uint32) {
	if a := req.Find(id); a != nil {
		a.Value = uint64(handle)
	}
}

// DriverIn returns the driver's part of a request, or nil.
func DriverIn(req *uverbs.Request) []byte {
	if a := req.Find(abi.UVERBS_ATTR_UHW_IN); a != nil {
		return a.Buf
	}
	return nil
}

// PutDriver fills the driver's part of the response.
func PutDriver[T any](req *uverbs.Request, v *T) { Put(req, abi.UVERBS_ATTR_UHW_OUT, v) }
