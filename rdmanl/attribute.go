// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"bytes"
	"encoding/binary"
	"iter"

	"purerdma/abi"
)

// Attributes is the set of attributes that a message had. It distinguishes a field that is zero from
// a field that the kernel did not send.
type Attributes [4]uint64

// Has reports whether the set contains an attribute, one of abi.RDMA_NLDEV_ATTR_*.
func (a Attributes) Has(attr int) bool {
	return attr >= 0 && attr < 64*len(a) && a[attr/64]>>(attr%64)&1 != 0
}

func (a *Attributes) add(attr int) {
	if attr < 64*len(a) {
		a[attr/64] |= 1 << (attr % 64)
	}
}

// Sizes and flags of an attribute (linux/netlink.h).
const (
	attrHeader   = 4
	attrAlign    = 4
	attrTypeMask = 1<<14 - 1 // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
)

// value is the payload of one attribute. For a nested attribute, and for a message of RDMA_NL_NLDEV,
// it consists of attributes.
type value []byte

// attributes iterates over the attributes in v, up to the first attribute that does not fit.
func (v value) attributes() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		for len(v) >= attrHeader {
			n := int(binary.NativeEndian.Uint16(v))
			typ := int(binary.NativeEndian.Uint16(v[2:]) & attrTypeMask)
			if n < attrHeader || n > len(v) || !yield(typ, v[attrHeader:n]) {
				return
			}
			v = v[min(len(v), (n+attrAlign-1)&^(attrAlign-1)):]
		}
	}
}

// entries iterates over the attributes of one type in v.
func (v value) entries(typ int) iter.Seq[value] {
	return func(yield func(value) bool) {
		for t, entry := range v.attributes() {
			if t == typ && !yield(entry) {
				return
			}
		}
	}
}

// number decodes an integer. The widths of some attributes differ between kernels.
func (v value) number() uint64 {
	switch len(v) {
	case 1:
		return uint64(v[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(v))
	case 4:
		return uint64(binary.NativeEndian.Uint32(v))
	case 8:
		return binary.NativeEndian.Uint64(v)
	}
	return 0
}

func (v value) u8() uint8   { return uint8(v.number()) }
func (v value) u32() uint32 { return uint32(v.number()) }
func (v value) flag() bool  { return v.number() != 0 }

// text decodes a string, which ends at the first zero byte.
func (v value) text() string {
	s, _, _ := bytes.Cut(v, []byte{0})
	return string(s)
}

// request is one request to the kernel.
type request struct {
	op     string // for errors
	object string // likewise
	cmd    int    // RDMA_NLDEV_CMD_*
	body   []byte // attributes
}

func newRequest(op string, cmd int) *request { return &request{op: op, cmd: cmd} }

// messageType returns the type of the request's message.
func (r *request) messageType() int { return abi.RDMA_NL_NLDEV<<abi.RDMA_NL_GET_CLIENT_SHIFT | r.cmd }

// add appends an attribute.
func (r *request) add(typ int, val []byte) *request {
	r.body = binary.NativeEndian.AppendUint16(r.body, uint16(attrHeader+len(val)))
	r.body = binary.NativeEndian.AppendUint16(r.body, uint16(typ))
	r.body = append(r.body, val...)
	r.body = append(r.body, make([]byte, -len(r.body)&(attrAlign-1))...)
	return r
}

func (r *request) addU8(typ int, v uint8) *request { return r.add(typ, []byte{v}) }

func (r *request) addU32(typ int, v uint32) *request {
	return r.add(typ, binary.NativeEndian.AppendUint32(nil, v))
}

// addText appends a string with a zero byte. The kernel refuses strings that are too long.
func (r *request) addText(typ int, s string) *request { return r.add(typ, append([]byte(s), 0)) }

func (r *request) addBool(typ int, v bool) *request {
	if v {
		return r.addU8(typ, 1)
	}
	return r.addU8(typ, 0)
}
