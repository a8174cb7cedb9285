// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// queueKernel is a kernel whose PDs, MRs, CQs and QPs are all identical and share one queue.
// They cost the kernel almost nothing, so that the benchmarks measure the library.
type queueKernel struct{ *uverbstest.Kernel }

type queueFile struct {
	uverbs.Transport
	queue []byte
}

func (k queueKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	f := &queueFile{Transport: t, queue: make([]byte, 1<<13)}
	hdr := abi.View[abi.RxeQueueBuf](f.queue)
	hdr.Log2ElemSize, hdr.IndexMask = 9, 7
	return f, err
}

func (f *queueFile) Ioctl(req *uverbs.Request) error {
	size := uint32(len(f.queue))
	switch req.Object {
	case abi.UVERBS_OBJECT_QP:
		if req.Method == abi.UVERBS_METHOD_QP_CREATE {
			req.Attrs[0].Value = 7
			resp := abi.View[abi.RxeCreateQPResp](req.Find(abi.UVERBS_ATTR_UHW_OUT).Buf)
			resp.SQMI.Size, resp.RQMI.Size = size, size
		}
		return nil
	case abi.UVERBS_OBJECT_CQ:
		if req.Method == abi.UVERBS_METHOD_CQ_CREATE {
			req.Attrs[0].Value = 8
			abi.View[abi.RxeCreateCQResp](req.Find(abi.UVERBS_ATTR_UHW_OUT).Buf).MI.Size = size
		}
		return nil
	case abi.UVERBS_OBJECT_PD, abi.UVERBS_OBJECT_MR:
		return nil
	case abi.UVERBS_OBJECT_DEVICE:
		if req.Method != abi.UVERBS_METHOD_INVOKE_WRITE {
			break
		}
		switch uverbs.Number(req.Attrs[0].Buf) {
		case abi.IB_USER_VERBS_CMD_MODIFY_QP, abi.IB_USER_VERBS_CMD_ALLOC_PD, abi.IB_USER_VERBS_CMD_REG_MR:
			return nil
		}
	}
	return f.Transport.Ioctl(req)
}

func (f *queueFile) Mmap(offset int64, length int) ([]byte, error) {
	if offset != 0 {
		return f.Transport.Mmap(offset, length)
	}
	return f.queue[:length], nil
}

func (f *queueFile) Munmap(b []byte) error {
	if &b[0] != &f.queue[0] {
		return f.Transport.Munmap(b)
	}
	return nil
}

// requestingCM is a connection manager with one listener and an endless sequence of requests.
// Each connection is established and disconnected at once.
type requestingCM struct {
	listener, uid uint64
	events        uint32
	closed        bool
}

func (c *requestingCM) WriteWhenReadable(ctx context.Context, b []byte) error {
	if c.closed {
		return net.ErrClosed
	}
	ev := (*abi.UcmEventResp)(pointerAt(b, 8))
	ev.ID = 100 + c.events/3
	switch c.events % 3 {
	case 0:
		ev.UID, ev.Event = c.listener, abi.RDMA_CM_EVENT_CONNECT_REQUEST
	case 1:
		ev.UID, ev.Event = c.uid, abi.RDMA_CM_EVENT_ESTABLISHED
	case 2:
		ev.UID, ev.Event = c.uid, abi.RDMA_CM_EVENT_DISCONNECTED
	}
	c.events++
	return nil
}

// attrsOf holds the mask that INIT_QP_ATTR returns for each state.
var attrsOf = [...]verbs.QPAttrMask{
	verbs.QPInit: verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess,
	verbs.QPRTR: verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN |
		verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer,
	verbs.QPRTS: verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic,
}

func (c *requestingCM) Write(b []byte) error {
	switch binary.NativeEndian.Uint32(b) {
	case abi.RDMA_USER_CM_CMD_CREATE_ID:
		c.listener = binary.NativeEndian.Uint64(b[8:])
		*(*uint32)(pointerAt(b, 16)) = 99
	case abi.RDMA_USER_CM_CMD_QUERY:
		(*abi.UcmQueryAddrResp)(pointerAt(b, 8)).PortNum = 1
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		c.uid = binary.NativeEndian.Uint64(b[8:])
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		r := (*abi.UverbsQPAttr)(pointerAt(b, 8))
		r.QPState = binary.NativeEndian.Uint32(b[20:])
		r.QPAttrMask = uint32(verbs.QPAttrState | attrsOf[r.QPState])
		r.PortNum, r.AHAttr.PortNum = 1, 1
	}
	return nil
}

func (c *requestingCM) Wake()                             {}
func (c *requestingCM) Control(fn func(fd uintptr)) error { fn(3); return nil }
func (c *requestingCM) Close() error                      { c.closed = true; return nil }

// accepting returns a function that accepts a connection on a QP, and closes it after the peer
// has disconnected.
func accepting(t testing.TB) func() {
	t.Helper()
	return acceptingOn(t, func(dev *verbs.Device) (func() *verbs.QP, func() error) {
		cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 1, NoEvents: true})
		if err != nil {
			t.Fatalf("CreateCQ: %v", err)
		}
		t.Cleanup(func() { cq.Close() })
		pd, err := dev.DefaultPD()
		if err != nil {
			t.Fatalf("DefaultPD: %v", err)
		}
		var qp *verbs.QP
		return func() *verbs.QP {
			if qp, err = pd.CreateQP(qpOn(cq, cq)); err != nil {
				t.Fatalf("CreateQP: %v", err)
			}
			return qp
		}, func() error { return qp.Close() }
	})
}

// acceptingAll returns a function like accepting, for a connection with objects of its own, as
// in ucmatose. These are a PD, a QP, two CQs on a common channel and a registered buffer.
func acceptingAll(t testing.TB) func() {
	t.Helper()
	return acceptingOn(t, func(dev *verbs.Device) (func() *verbs.QP, func() error) {
		ch, err := dev.CreateCompChannel()
		if err != nil {
			t.Fatalf("CreateCompChannel: %v", err)
		}
		t.Cleanup(func() { ch.Close() })
		var pd *verbs.PD
		var send, recv *verbs.CQ
		var qp *verbs.QP
		var mr *verbs.MR
		return func() *verbs.QP {
			if pd, err = dev.AllocPD(); err != nil {
				t.Fatalf("AllocPD: %v", err)
			}
			for _, cq := range []**verbs.CQ{&send, &recv} {
				if *cq, err = dev.CreateCQ(verbs.CQConfig{Entries: 1, Channel: ch}); err != nil {
					t.Fatalf("CreateCQ: %v", err)
				}
			}
			if qp, err = pd.CreateQP(qpOn(send, recv)); err != nil {
				t.Fatalf("CreateQP: %v", err)
			}
			if mr, err = pd.RegMR(make([]byte, 100), verbs.LocalWrite); err != nil {
				t.Fatalf("RegMR: %v", err)
			}
			return qp
		}, func() error { return errors.Join(qp.Close(), send.Close(), recv.Close(), mr.Close(), pd.Close()) }
	})
}

func qpOn(send, recv *verbs.CQ) verbs.QPConfig {
	return verbs.QPConfig{Type: verbs.RC, SendCQ: send, RecvCQ: recv, Cap: verbs.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1}}
}

// acceptingOn returns a function like accepting. The function objects returns a function that
// creates the QP and its other objects, and a function that closes them.
func acceptingOn(t testing.TB, objects func(*verbs.Device) (create func() *verbs.QP, destroy func() error)) func() {
	t.Helper()
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: queueKernel{uverbstest.New("rxe0")}}
	ch := newEventChannel(ucma.New(&requestingCM{}), host)
	t.Cleanup(func() { ch.Close() })
	if _, err := ch.NewID(IDConfig{}); err != nil {
		t.Fatalf("NewID: %v", err)
	}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { dev.Close() })
	create, destroy := objects(dev)
	next := func(want EventType) *ID {
		ev, err := ch.Next(context.Background())
		if err != nil || ev.Type != want {
			t.Fatalf("Next() = %v, %v, want %v", ev, err, want)
		}
		ev.Ack()
		return ev.ID
	}
	return func() {
		id := next(EventConnectRequest)
		qp := create()
		if err := id.UseQP(qp); err != nil {
			t.Fatalf("id.UseQP: %v", err)
		}
		if err := id.Accept(nil); err != nil {
			t.Fatalf("id.Accept: %v", err)
		}
		next(EventEstablished)
		next(EventDisconnected)
		if err := id.Disconnect(); err != nil {
			t.Fatalf("id.Disconnect: %v", err)
		}
		id.Close()
		if err := destroy(); err != nil {
			t.Fatalf("destroy: %v", err)
		}
	}
}

// BenchmarkAccept measures the cost of a connection on the accepting side, from its request to
// its end. It excludes the kernel and the scheduler.
func BenchmarkAccept(b *testing.B) { benchmarkAccept(b, accepting(b)) }

// BenchmarkAcceptAll is BenchmarkAccept with a PD, CQs and an MR for each connection.
func BenchmarkAcceptAll(b *testing.B) { benchmarkAccept(b, acceptingAll(b)) }

func benchmarkAccept(b *testing.B, accept func()) {
	b.ReportAllocs()
	for b.Loop() {
		accept()
	}
}

// TestAcceptAllocations checks the number of allocations of an accepted connection, which are
// mostly its ID, its objects and its events. The tracer of leaks, which only tests have,
// doubles the number. Under the race detector, pools drop some of their contents.
func TestAcceptAllocations(t *testing.T) {
	for _, tc := range []struct {
		what   string
		accept func(testing.TB) func()
		most   float64
	}{
		{"a QP", accepting, 30},
		{"all objects", acceptingAll, 72},
	} {
		if n := testing.AllocsPerRun(200, tc.accept(t)); n > tc.most {
			t.Errorf("accepting a connection with %s: %v allocations, want at most %v", tc.what, n, tc.most)
		}
	}
}
