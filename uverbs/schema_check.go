// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"purerdma/abi"
)

// RequestError reports that a request does not agree with the declaration of its method. The
// request was not sent to the kernel.
type RequestError struct {
	Request string // the method or command
	Attr    string // the attribute, or "" if it is not about one
	Reason  string
}

// Error names the method, the attribute and the reason.
func (e *RequestError) Error() string {
	if e.Attr == "" {
		return e.Request + ": " + e.Reason
	}
	return e.Request + ": attribute " + e.Attr + ": " + e.Reason
}

// Check compares a request with the declaration of its method. Every attribute must belong to the
// method, be present once, and have the right kind and length. Required attributes must be present.
// Attributes of a driver are not checked. The error is a *RequestError.
func (m *Method) Check(req *Request) error {
	bad := func(attr, format string, args ...any) error {
		return &RequestError{Request: req.Name(), Attr: attr, Reason: fmt.Sprintf(format, args...)}
	}
	var seen uint64
	for i := range req.Attrs {
		a := &req.Attrs[i]
		s := m.Attr(a.ID)
		switch {
		case s == nil && a.ID >= abi.UVERBS_ID_DRIVER_NS:
			continue
		case s == nil:
			return bad(fmt.Sprint(a.ID), "the method has none of that number")
		case a.Kind != s.Kind:
			return bad(s.Name, "is of kind %v, want %v", a.Kind, s.Kind)
		case seen&s.bit != 0:
			return bad(s.Name, "is there twice")
		}
		seen |= s.bit
		if a.Kind != AttrIn && a.Kind != AttrOut {
			continue
		}
		low, high := s.Min, s.Max
		if s.Elems != nil {
			if int(a.Elem) >= len(s.Elems) {
				return bad(s.Name, "has no form %d", a.Elem)
			}
			low, high = 0, 0
			if t := s.Elems[a.Elem]; t != nil {
				low, high = int(t.Size()), int(t.Size())
			}
		} else if a.Elem != 0 {
			return bad(s.Name, "has no form %d", a.Elem)
		}
		if len(a.Buf) < low || len(a.Buf) > high {
			return bad(s.Name, "has %d bytes, want %d to %d", len(a.Buf), low, high)
		}
	}
	if missing := m.required &^ seen; missing != 0 {
		return bad(m.Attrs[bits.TrailingZeros64(missing)].Name, "is missing")
	}
	return req.checkCommand(bad)
}

// checkCommand compares the command in an INVOKE_WRITE with its declaration.
func (r *Request) checkCommand(bad func(attr, format string, args ...any) error) error {
	code, ok := r.command()
	if !ok {
		return nil
	}
	c := CommandOf(code)
	if c == nil {
		return bad("", "there is no command %#x", code)
	}
	check := func(attr *Attr, name string, size int, flexible bool) error {
		n := 0
		if attr != nil {
			n = len(attr.Buf)
		}
		if n < size || n > size && !flexible {
			return bad(name, "has %d bytes, want %d", n, size)
		}
		return nil
	}
	if err := check(r.Find(abi.UVERBS_ATTR_CORE_IN), "core_in", c.inSize(), c.Flexible); err != nil {
		return err
	}
	return check(r.Find(abi.UVERBS_ATTR_CORE_OUT), "core_out", c.outSize(), c.Flexible)
}

// String returns the name of the kind, as "input".
func (k AttrKind) String() string {
	switch k {
	case AttrIn:
		return "input"
	case AttrOut:
		return "output"
	case AttrHandle:
		return "handle"
	case AttrNewHandle:
		return "new handle"
	case AttrFD:
		return "file descriptor"
	case AttrNewFD:
		return "new file descriptor"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Number decodes an integer of one, two, four or eight bytes, as inputs and
// outputs hold them. It is 0 for any other length.
func Number(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}
