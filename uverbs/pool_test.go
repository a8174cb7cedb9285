// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"bytes"
	"testing"

	"purerdma/abi"
)

// TestPooled checks the buffers of pooled requests. Inputs are copies, and outputs do not
// overlap. An output that exceeds the pooled buffer has its own memory. After free, the request
// keeps no pointers.
func TestPooled(t *testing.T) {
	for range 3 { // from the second round on, the requests may be reused
		p := newRequest(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
		in := []byte{1, 2, 3}
		p.in(1, in)
		in[0] = 9
		outs := [][]byte{p.out(2, 5), p.out(3, 200), p.out(4, 300), p.out(5, 8)}
		for i, out := range outs {
			for k := range out {
				out[k] = byte(i + 10)
			}
		}
		for i, out := range outs {
			want := bytes.Repeat([]byte{byte(i + 10)}, []int{5, 200, 300, 8}[i])
			if !bytes.Equal(out, want) || !bytes.Equal(p.Attrs[i+1].Buf, want) || cap(out) != len(out) {
				t.Errorf("output %d = %x, want %x", i, out, want)
			}
		}
		if a := p.Attrs[0]; a.ID != 1 || a.Kind != AttrIn || !bytes.Equal(a.Buf, []byte{1, 2, 3}) {
			t.Errorf("input = %+v, want bytes 1, 2, 3 of attribute 1", a)
		}
		attrs := p.Attrs
		p.free()
		for _, a := range attrs {
			if a.Buf != nil {
				t.Errorf("attribute %d is kept after free", a.ID)
			}
		}
	}
}

// TestAttrBits checks that a set of attributes has a bit for each attribute of a method, in
// addition to the two bits of the driver's attributes.
func TestAttrBits(t *testing.T) {
	for m := range Methods {
		seen := uhwIn.bit | uhwOut.bit
		for i := range m.Attrs {
			if b := m.Attrs[i].bit; b == 0 || seen&b != 0 {
				t.Errorf("%s: bit of %s = %#x, want a bit of its own", m.Name, m.Attrs[i].Name, b)
			} else {
				seen |= b
			}
		}
	}
}
