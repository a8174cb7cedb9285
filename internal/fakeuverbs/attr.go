// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"purerdma/abi"
	"purerdma/uverbs"
)

// Value returns the number or the handle that an attribute of a request holds, 0
// if the request has none of that id.
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

// Handle is Value of a handle.
func Handle(req *uverbs.Request, id uint16) uint32 { return uint32(Value(req, id)) }

// Put fills an output, as much of it as the program takes.
func Put[T any](req *uverbs.Request, id uint16, v *T) {
	if a := req.Find(id); a != nil {
		copy(a.Buf, abi.Bytes(v))
	}
}

// SetHandle gives the program the handle of a new object.
func SetHandle(req *uverbs.Request, id uint16, handle uint32) {
	if a := req.Find(id); a != nil {
		a.Value = uint64(handle)
	}
}

// DriverIn returns the driver's part of a request, nil without.
func DriverIn(req *uverbs.Request) []byte {
	if a := req.Find(abi.UVERBS_ATTR_UHW_IN); a != nil {
		return a.Buf
	}
	return nil
}

// PutDriver fills the driver's part of the answer.
func PutDriver[T any](req *uverbs.Request, v *T) { Put(req, abi.UVERBS_ATTR_UHW_OUT, v) }
