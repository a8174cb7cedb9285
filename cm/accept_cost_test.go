// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
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

// queueFile is a kernel whose QPs are all alike and share their queues, so that they cost it
// nothing: what is measured is the library.
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
	switch req.Object {
	case abi.UVERBS_OBJECT_QP:
		if req.Method == abi.UVERBS_METHOD_QP_CREATE {
			req.Attrs[0].Value = 7
			resp := abi.View[abi.RxeCreateQPResp](req.Find(abi.UVERBS_ATTR_UHW_OUT).Buf)
			resp.SQMI.Size, resp.RQMI.Size = uint32(len(f.queue)), uint32(len(f.queue))
		}
		return nil
	case abi.UVERBS_OBJECT_DEVICE:
		if req.Method == abi.UVERBS_METHOD_INVOKE_WRITE && uverbs.Number(req.Attrs[0].Buf) == abi.IB_USER_VERBS_CMD_MODIFY_QP {
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

// requestingCM is a connection manager with one listener, for which there is always
// another request: it is established and disconnected at once.
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

// attrsOf is what INIT_QP_ATTR sets for a state.
var attrsOf = [...]verbs.QPAttrMask{
	verbs.QPInit: verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess,
	verbs.QPRTR: verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN |
		verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer,
	verbs.QPRTS: verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic,
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
	}
	return nil
}

func (c *requestingCM) Wake()                             {}
func (c *requestingCM) Control(fn func(fd uintptr)) error { fn(3); return nil }
func (c *requestingCM) Close() error                      { c.closed = true; return nil }

// accepting returns a function that accepts a connection on a QP and ends it with
// the peer.
func accepting(t testing.TB) func() {
	t.Helper()
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: queueKernel{uverbstest.New("rxe0")}}
	ch := newEventChannel(ucma.New(&requestingCM{}), host)
	t.Cleanup(func() { ch.Close() })
	if _, err := ch.NewID(PortSpaceTCP); err != nil {
		t.Fatal(err)
	}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 1, NoEvents: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cq.Close() })
	pd, err := dev.DefaultPD()
	if err != nil {
		t.Fatal(err)
	}
	next := func(want EventType) *ID {
		ev, err := ch.Next(context.Background())
		if err != nil || ev.Type != want {
			t.Fatalf("%v, %v, want %v", ev, err, want)
		}
		ev.Ack()
		return ev.ID
	}
	return func() {
		id := next(EventConnectRequest)
		qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := id.UseQP(qp); err != nil {
			t.Fatal(err)
		}
		if err := id.Accept(nil); err != nil {
			t.Fatal(err)
		}
		next(EventEstablished)
		next(EventDisconnected)
		if err := id.Disconnect(); err != nil {
			t.Fatal(err)
		}
		id.Close()
		if err := qp.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkAccept is what a connection costs the accepting side, from its request to
// its end, besides the kernel and the scheduler.
func BenchmarkAccept(b *testing.B) {
	accept := accepting(b)
	b.ReportAllocs()
	for b.Loop() {
		accept()
	}
}

// TestAcceptAllocations: an accepted connection allocates its ID, its QP, its events and
// little else. The tracer of leaks, which tests have and programs have not, allocates
// as much again.
func TestAcceptAllocations(t *testing.T) {
	const most = 45
	if n := testing.AllocsPerRun(200, accepting(t)); n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}
