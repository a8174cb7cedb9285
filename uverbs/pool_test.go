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

// answering is a device that accepts every request and does nothing.
type answering struct{ Transport }

func (answering) Ioctl(req *Request) error { return nil }

// TestConnectionAllocates checks that the requests of a connection do not allocate. Each
// connection creates a QP, moves it several times, and destroys it. Many connections have their
// own PD, CQs and MR.
func TestConnectionAllocates(t *testing.T) {
	f := &File{t: answering{}}
	mem := make([]byte, 1)
	most := map[string]float64{"RegMR": 1, "NewNotifier": 1}
	for what, run := range map[string]func() error{
		"CreateQP": func() error {
			_, err := f.CreateQP(QPConfig{Type: abi.IB_UVERBS_QPT_RC}, Driver{})
			return err
		},
		"ModifyQP":  func() error { return f.ModifyQP(&abi.UverbsModifyQP{QPHandle: 1}) },
		"DestroyQP": func() error { return f.DestroyQP(1) },
		"CreateCQ": func() error {
			_, err := f.CreateCQ(CQConfig{Entries: 1}, Driver{})
			return err
		},
		"NewNotifier": func() error {
			notifier = f.NewNotifier(1)
			return nil
		},
		"DestroyCQ": func() error { return f.DestroyCQ(1) },
		"AllocPD": func() error {
			_, err := f.AllocPD(Driver{})
			return err
		},
		"DeallocPD": func() error { return f.DeallocPD(1) },
		"RegMR": func() error {
			_, err := f.RegMR(1, mem, 0, 0, Driver{})
			return err
		},
		"DeregMR": func() error { return f.DeregMR(1) },
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := run(); err != nil {
				t.Fatalf("run: %v", err)
			}
		})
		if n >= most[what]+1 { // the race detector makes pools drop objects
			t.Errorf("%s: %v allocations, want at most %v", what, n, most[what])
		}
	}
}

var notifier *Notifier // an unused variable need not be allocated
