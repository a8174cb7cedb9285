// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rxe

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/uverbs"
)

// liar is a kernel that accepts every command and reports the layout of its queues that a test
// has set.
type liar struct {
	mi     abi.RxeMminfo
	header abi.RxeQueueBuf
	sge    uint32
	inline uint32
	ah     uint32

	busy    int // how many times an object is in use when it is destroyed
	objects int // created and not yet destroyed
	mapped  map[*byte]*mem.Region
}

func (l *liar) Devices() ([]uverbs.DeviceInfo, error) { return nil, nil }

func (l *liar) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return l, nil }

func (l *liar) Ioctl(req *uverbs.Request) error {
	for i := range req.Attrs {
		switch a := &req.Attrs[i]; {
		case a.Kind == uverbs.AttrNewHandle:
			a.Value = 7
			l.objects++
		case a.Kind != uverbs.AttrOut:
		case a.ID == abi.UVERBS_ATTR_UHW_OUT:
			l.answer(a.Buf)
		case req.Object == abi.UVERBS_OBJECT_QP && a.ID == abi.UVERBS_ATTR_CREATE_QP_RESP_CAP:
			copy(a.Buf, abi.Bytes(&abi.UverbsQPCap{MaxSendSGE: l.sge, MaxRecvSGE: l.sge, MaxInlineData: l.inline}))
		case req.Object == abi.UVERBS_OBJECT_SRQ && a.ID == abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE:
			copy(a.Buf, abi.Bytes(&l.sge))
		}
	}
	switch {
	case req.Object != abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_CQ_DESTROY: // as for all objects
		if l.busy > 0 {
			l.busy--
			return syscall.EBUSY
		}
		l.objects--
	case req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_INVOKE_WRITE:
		switch uverbs.Number(req.Find(abi.UVERBS_ATTR_WRITE_CMD).Buf) {
		case abi.IB_USER_VERBS_CMD_CREATE_AH:
			l.objects++
		case abi.IB_USER_VERBS_CMD_MODIFY_SRQ:
			at := abi.View[abi.RxeModifySRQCmd](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf).MmapInfoAddr
			copy(at.Slice(abi.Size[abi.RxeMminfo]()), abi.Bytes(&l.mi))
		}
	}
	return nil
}

// answer fills the driver's part of the response. The length of this part identifies the
// command.
func (l *liar) answer(b []byte) {
	switch len(b) {
	case abi.Size[abi.RxeCreateAHResp]():
		copy(b, abi.Bytes(&abi.RxeCreateAHResp{AHNum: l.ah}))
	case abi.Size[abi.RxeCreateCQResp]():
		copy(b, abi.Bytes(&l.mi))
	case abi.Size[abi.RxeCreateSRQResp]():
		copy(b, abi.Bytes(&abi.RxeCreateSRQResp{MI: l.mi}))
	case abi.Size[abi.RxeCreateQPResp]():
		copy(b, abi.Bytes(&abi.RxeCreateQPResp{RQMI: l.mi, SQMI: l.mi}))
	default:
		panic(fmt.Sprintf("driver response of %d bytes", len(b)))
	}
}

func (l *liar) Write([]byte) error { return nil }

func (l *liar) Mmap(offset int64, length int) ([]byte, error) {
	if offset < 0 || length <= 0 || length > 1<<24 {
		return nil, syscall.EINVAL
	}
	r, err := mem.Alloc(length)
	if err != nil {
		return nil, err
	}
	copy(r.Bytes(), abi.Bytes(&l.header))
	l.mapped[&r.Bytes()[0]] = r
	return r.Bytes(), nil
}

func (l *liar) Replace([]byte) error { return nil }

func (l *liar) Munmap(b []byte) error {
	r := l.mapped[&b[0]]
	delete(l.mapped, &b[0])
	return r.Free()
}

func (l *liar) Close() error { return nil }

// honest is a kernel with queues of 15 slots of 512 bytes.
func honest() *liar {
	l := &liar{sge: 4, inline: 64, ah: 1, mapped: make(map[*byte]*mem.Region)}
	l.header.Log2ElemSize, l.header.IndexMask = 9, 15
	l.mi = abi.RxeMminfo{Offset: 1 << 12, Size: uint32(abi.Size[abi.RxeQueueBuf]() + 16<<9)}
	return l
}

func (l *liar) context(t testing.TB) *Context {
	t.Helper()
	f, err := uverbs.Open(l, uverbs.DeviceInfo{Name: "liar"})
	if err != nil {
		t.Fatalf("uverbs.Open: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	c, err := Driver{}.Open(f)
	if err != nil {
		t.Fatalf("Driver.Open: %v", err)
	}
	return c.(*Context)
}

type handle uint32

func (h handle) Handle() uint32 { return uint32(h) }
func (h handle) Close() error   { return nil }

var lies = map[string]func(*liar){
	"no memory":               func(l *liar) { l.mi.Size = 0 },
	"less than a header":      func(l *liar) { l.mi.Size = 100 },
	"a header":                func(l *liar) { l.mi.Size = uint32(abi.Size[abi.RxeQueueBuf]()) },
	"one byte less":           func(l *liar) { l.mi.Size-- },
	"4 GiB":                   func(l *liar) { l.mi.Size = 1<<32 - 1 },
	"offset beyond":           func(l *liar) { l.mi.Offset = 1 << 63 },
	"one slot":                func(l *liar) { l.header.IndexMask = 0 },
	"no power of two":         func(l *liar) { l.header.IndexMask = 12 },
	"mask beyond":             func(l *liar) { l.header.IndexMask = 31 },
	"all slots":               func(l *liar) { l.header.IndexMask = 1<<32 - 1 },
	"slots without bytes":     func(l *liar) { l.header.Log2ElemSize = 0 },
	"slots of 16 bytes":       func(l *liar) { l.header.Log2ElemSize = 4 },
	"slots of 2^33 bytes":     func(l *liar) { l.header.Log2ElemSize = 33 },
	"slots of 2^(2^31) bytes": func(l *liar) { l.header.Log2ElemSize = 1 << 31 },
}

// sizes are wrong values for the capacity of one request.
var sizes = map[string]func(*liar){
	"100 elements":  func(l *liar) { l.sge = 100 },
	"2^28 elements": func(l *liar) { l.sge = 1 << 28 },
	"2^32 elements": func(l *liar) { l.sge = 1<<32 - 1 },
}

// TestHostileLayouts creates queues whose layout the kernel reports wrongly.
func TestHostileLayouts(t *testing.T) {
	create := map[string]func(c *Context) error{
		"CQ": func(c *Context) error { _, err := c.CreateCQ(&provider.CQConfig{Entries: 8}); return err },
		"SRQ": func(c *Context) error {
			_, err := c.CreateSRQ(&provider.SRQConfig{PD: handle(1), MaxWR: 8, MaxSGE: 2})
			return err
		},
		"QP": func(c *Context) error {
			_, err := c.CreateQP(&provider.QPConfig{Type: provider.RC, PD: handle(1), SendCQ: &cq{}, RecvCQ: &cq{}})
			return err
		},
	}
	for what, f := range create {
		l := honest()
		if err := f(l.context(t)); err != nil {
			t.Fatalf("%s with the correct layout: %v", what, err)
		}
		try := func(lie string, set func(*liar)) {
			l := honest()
			set(l)
			err := f(l.context(t))
			if !errors.Is(err, ring.ErrLayout) && !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s, %s: error = %v, want ErrLayout or EINVAL", what, lie, err)
			}
			if l.objects != 0 || len(l.mapped) != 0 {
				t.Errorf("%s, %s: %d objects and %d mappings left, want 0 and 0", what, lie, l.objects, len(l.mapped))
			}
		}
		for lie, set := range lies {
			try(lie, set)
		}
		if what != "CQ" {
			for lie, set := range sizes {
				try(lie, set)
			}
		}
	}
	l := honest()
	l.inline = 1 << 31
	if err := create["QP"](l.context(t)); !errors.Is(err, ring.ErrLayout) {
		t.Errorf("CreateQP with 2 GiB of inline data = %v, want ErrLayout", err)
	}
	l.ah = 0
	if _, err := l.context(t).CreateAH(&provider.AHConfig{PD: handle(1)}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CreateAH without a number = %v, want ErrUnsupported", err)
	}
}

// TestHostileResize resizes queues while the kernel reports wrong layouts. The queues fail with an
// error, but they can be closed.
func TestHostileResize(t *testing.T) {
	for lie, set := range lies {
		l := honest()
		c := l.context(t)
		q, err := c.CreateCQ(&provider.CQConfig{Entries: 8})
		if err != nil {
			t.Fatalf("Context.CreateCQ: %v", err)
		}
		s, err := c.CreateSRQ(&provider.SRQConfig{PD: handle(1), MaxWR: 8, MaxSGE: 2})
		if err != nil {
			t.Fatalf("Context.CreateSRQ: %v", err)
		}
		if err := q.Resize(10); err != nil || q.Entries() != 15 {
			t.Fatalf("Resize(10) = %v, Entries() = %d, want nil, 15", err, q.Entries())
		}
		if err := s.Modify(&provider.SRQAttr{MaxWR: 10}, provider.SRQAttrMaxWR); err != nil || s.Attr().MaxWR != 15 {
			t.Fatalf("Modify(MaxWR 10) = %v, MaxWR = %d, want nil, 15", err, s.Attr().MaxWR)
		}
		set(l)
		rerr := q.Resize(20)
		if _, err := q.Poll(make([]provider.WC, 1)); rerr == nil || err != rerr {
			t.Errorf("%s: Resize = %v, Poll = %v, want the same error", lie, rerr, err)
		}
		rerr = s.Modify(&provider.SRQAttr{MaxWR: 20}, provider.SRQAttrMaxWR)
		if n, err := s.PostRecv(make([]provider.RecvWR, 1)); rerr == nil || err != rerr || n != 0 {
			t.Errorf("%s: Modify = %v, PostRecv = %d, %v, want the same error", lie, rerr, n, err)
		}
		for range 2 {
			if err := errors.Join(q.Close(), s.Close()); err != nil {
				t.Errorf("%s: CQ.Close and SRQ.Close: %v", lie, err)
			}
		}
		if len(l.mapped) != 0 {
			t.Errorf("%s: %d mappings left, want 0", lie, len(l.mapped))
		}
	}
}

// FuzzPoll polls completions from a ring with arbitrary contents.
func FuzzPoll(f *testing.F) {
	f.Add(make([]byte, 64), uint32(1))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ^uint32(0))
	l := honest()
	file, err := uverbs.Open(l, uverbs.DeviceInfo{Name: "liar"})
	if err != nil {
		f.Fatalf("uverbs.Open: %v", err)
	}
	p, err := (&Context{KernelObjects: provider.KernelObjects{File: file}}).CreateCQ(&provider.CQConfig{Entries: 8})
	if err != nil {
		f.Fatalf("Context.CreateCQ: %v", err)
	}
	q := p.(*cq)
	f.Fuzz(func(t *testing.T, b []byte, producer uint32) {
		hdr := abi.View[abi.RxeQueueBuf](q.mapping.Bytes())
		copy(q.mapping.Bytes()[abi.Size[abi.RxeQueueBuf]():], b)
		hdr.ProducerIndex, hdr.IndexMask, hdr.Log2ElemSize = producer, producer, producer
		wcs := make([]provider.WC, 20)
		for range 2 {
			if n, err := q.Poll(wcs); n > q.Entries() || err != nil {
				t.Fatalf("cq.Poll = %d, %v, want at most %d, nil", n, err, q.Entries())
			}
		}
	})
}
