// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"purerdma/abi"
)

// echo is a device that reads a request twice, and lets other goroutines run in between. The
// outputs of CREATE_QP contain its user handle. It refuses every third request after it has
// written the outputs, and accepts every third one without writing them.
type echo struct{ Transport }

func (echo) Ioctl(req *Request) error {
	before := copies(req)
	for range 3 {
		runtime.Gosched()
	}
	for i, b := range copies(req) {
		if !bytes.Equal(b, before[i]) {
			return fmt.Errorf("attribute %d changed while the kernel read it, from %x to %x", req.Attrs[i].ID, before[i], b)
		}
	}
	if len(req.Attrs) != len(before) {
		return fmt.Errorf("%d attributes became %d while the kernel read them", len(before), len(req.Attrs))
	}
	if req.Method != abi.UVERBS_METHOD_QP_CREATE || req.Object != abi.UVERBS_OBJECT_QP {
		return nil
	}
	n := Number(req.Find(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE).Buf)
	for i := range req.Attrs {
		if a := &req.Attrs[i]; a.Kind == AttrOut && !bytes.Equal(a.Buf, make([]byte, len(a.Buf))) {
			return fmt.Errorf("buffer of output %d = %x, want zeros", a.ID, a.Buf)
		} else if a.Kind == AttrOut && n%3 != 1 {
			for k := range a.Buf {
				a.Buf[k] = byte(n)
			}
		}
	}
	req.Attrs[0].Value = n
	if n%3 == 2 {
		return syscall.EAGAIN
	}
	return nil
}

// copies returns the bytes that a kernel reads of a request, which are the inputs and the
// handles.
func copies(req *Request) (list [][]byte) {
	for i := range req.Attrs {
		a := &req.Attrs[i]
		b := abi.Bytes(&a.Value)
		if a.Kind == AttrIn {
			b = a.Buf
		}
		list = append(list, bytes.Clone(b))
	}
	return list
}

// TestReuse runs commands in many goroutines, which share a pool of requests. No request may
// contain the input of another or the output of an earlier request.
func TestReuse(t *testing.T) {
	f := &File{t: echo{}}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := uint32(8*i + g)
				cfg := QPConfig{Type: abi.IB_UVERBS_QPT_RC, PD: n, SendCQ: n, RecvCQ: n, UserHandle: uint64(n), Cap: abi.UverbsQPCap{MaxSendWR: n}}
				qp, err := f.CreateQP(cfg, Driver{})
				same := n & 0xff * 0x01010101
				want := QP{Handle: n, Num: same, Cap: abi.UverbsQPCap{MaxSendWR: same, MaxRecvWR: same, MaxSendSGE: same, MaxRecvSGE: same, MaxInlineData: same}}
				switch n % 3 {
				case 1:
					want = QP{Handle: n}
				case 2:
					want = QP{}
				}
				if qp != want || (err == syscall.EAGAIN) != (n%3 == 2) {
					t.Errorf("CreateQP of user handle %d = %+v, %v, want %+v, and EAGAIN only if the handle%%3 is 2", n, qp, err, want)
					return
				}
				cmd := abi.UverbsModifyQP{QPHandle: n, AttrMask: n, DestQPNum: n}
				if err := f.ModifyQP(&cmd); err != nil {
					t.Errorf("ModifyQP(%d): %v", n, err)
					return
				}
				if err := f.DestroyQP(n); err != nil {
					t.Errorf("DestroyQP(%d): %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestPooledMany checks requests with more attributes than the pooled array holds. They keep no
// attributes after free, and a request has one user at a time.
func TestPooledMany(t *testing.T) {
	p := newRequest(1, 2)
	for i := range len(p.attrs) + 3 {
		p.in(uint16(i), []byte("input"))
	}
	p.free()
	for i := range p.attrs {
		if p.attrs[i].Buf != nil {
			t.Errorf("attribute %d is kept after free", i)
		}
	}
	if a, b := newRequest(1, 1), newRequest(2, 2); a == b {
		t.Error("newRequest returned the same request twice")
	}
}
