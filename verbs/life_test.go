// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestShared opens a device several times. All handles must share one context, which is closed
// with its last user, whether handle or object.
func TestShared(t *testing.T) {
	rt := fakeRoute()
	a, err := rt.h.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	b, err := internals.OpenIndex(rt.h, 0, 0)
	if err != nil {
		t.Fatalf("Verbs.OpenIndex: %v", err)
	}
	c, err := internals.OpenIndex(rt.h, -1, a.NodeGUID())
	if err != nil {
		t.Fatalf("Verbs.OpenIndex: %v", err)
	}
	if !a.Same(b) || !a.Same(c) || rt.fake.Opened() != 1 {
		t.Errorf("Same = false, or Opened() = %d, want 1", rt.fake.Opened())
	}
	pd, err := a.DefaultPD()
	if err != nil {
		t.Fatalf("Device.DefaultPD: %v", err)
	}
	if again, err := b.DefaultPD(); again != pd || err != nil {
		t.Errorf("DefaultPD = another PD, %v, want the same PD, nil", err)
	}
	mr, err := pd.Alloc(100, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	for range 2 {
		for _, d := range []*verbs.Device{a, b, c, pd.Device(), mr.PD().Device()} {
			if err := d.Close(); err != nil {
				t.Errorf("Device.Close: %v", err)
			}
		}
		if err := pd.Close(); err != nil {
			t.Errorf("PD.Close: %v", err)
		}
	}
	if rt.fake.Opened() != 1 {
		t.Error("the context was closed before the memory")
	}
	if _, err := a.CreateCQ(verbs.CQConfig{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CreateCQ on a closed device = %v, want net.ErrClosed", err)
	}
	copy(mr.Bytes(), "still there")
	if err := mr.Close(); err != nil {
		t.Errorf("MR.Close: %v", err)
	}
	if rt.fake.Opened() != 0 {
		t.Error("the context was not closed with the last object")
	}
	if _, err := pd.Alloc(100, verbs.LocalWrite); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Alloc after the context was closed = %v, want net.ErrClosed", err)
	}
	if d, err := rt.h.Open("rxe0"); err != nil || d.Same(a) {
		t.Errorf("Open after the context was closed = %v, want a new context", err)
	} else {
		d.Close()
	}
}

func TestMR(t *testing.T) {
	rt := fakeRoute()
	_, pd := openPD(t, rt.h, "rxe0")
	mr, err := pd.Alloc(5000, everything)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	if mr.Len() != 5000 || len(mr.Bytes()) != 5000 || cap(mr.Bytes()) != 5000 || mr.Addr()%uint64(os.Getpagesize()) != 0 {
		t.Errorf("Alloc = %d bytes at %#x, want 5000 at a page boundary", mr.Len(), mr.Addr())
	}
	if s := mr.Slice(10, 20); s != (verbs.SGE{Addr: mr.Addr() + 10, Length: 20, LKey: mr.LKey()}) {
		t.Errorf("Slice(10, 20) = %+v, want 20 bytes at offset 10", s)
	}
	if s := mr.SGE(); s.Length != 5000 || mr.Slice(5000, 0).Length != 0 {
		t.Errorf("SGE() = %+v, want 5000 bytes", s)
	}
	for _, bad := range [][2]int{{0, 5001}, {5000, 1}, {-1, 1}, {1, -1}, {10, -5}, {math.MaxInt, math.MaxInt}} {
		func() {
			defer func() {
				if _, ok := recover().(runtime.Error); !ok {
					t.Errorf("Slice(%d, %d) did not panic like a slice expression", bad[0], bad[1])
				}
			}()
			mr.Slice(bad[0], bad[1])
		}()
	}
	if err := errors.Join(mr.Close(), mr.Close()); err != nil {
		t.Errorf("MR.Close twice: %v", err)
	}

	heap := make([]byte, 300)
	pinned, err := pd.RegMR(heap[50:150], verbs.LocalWrite)
	if err != nil {
		t.Fatalf("PD.RegMR: %v", err)
	}
	if &pinned.Bytes()[0] != &heap[50] || pinned.Len() != 100 {
		t.Error("RegMR registered other memory than the slice")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Slice(0, 101) of 100 registered bytes with more capacity did not panic")
			}
		}()
		pinned.Slice(0, 101)
	}()
	if err := pinned.Close(); err != nil {
		t.Errorf("MR.Close: %v", err)
	}
	// A pinned buffer without references leaks, and does not crash.
	if _, err := pd.RegMR(nil, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("RegMR(nil) = %v, want EINVAL", err)
	}
	if _, err := pd.Alloc(0, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Alloc(0) = %v, want EINVAL", err)
	}
	if _, err := pd.Alloc(10, verbs.RemoteWrite); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Alloc with RemoteWrite and without LocalWrite = %v, want EINVAL", err)
	}
}

// TestRefusedDereg has the kernel refuse to destroy a memory region. The memory must stay
// mapped.
func TestRefusedDereg(t *testing.T) {
	rt := fakeRoute()
	var refuse atomic.Bool
	rt.fake.Intercept = func(r *uverbs.Request) error {
		if refuse.Load() && r.Object == abi.UVERBS_OBJECT_MR && r.Method == abi.UVERBS_METHOD_MR_DESTROY {
			return syscall.EBUSY
		}
		return nil
	}
	dev := openDevice(t, rt.h, "rxe0")
	pd, err := dev.DefaultPD()
	if err != nil {
		t.Fatalf("Device.DefaultPD: %v", err)
	}
	mr, err := pd.Alloc(1, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	refuse.Store(true)
	for range 2 {
		if err := mr.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("MR.Close() = %v, want EBUSY", err)
		}
	}
	mr.Bytes()[0] = 1 // would fault if it were unmapped
	refuse.Store(false)
	if err := mr.Close(); err != nil {
		t.Errorf("MR.Close: %v", err)
	}
}

// TestCreateFails fails every command on the way to a QP once. No objects may remain.
func TestCreateFails(t *testing.T) {
	for n := 1; ; n++ {
		rt := fakeRoute()
		calls := 0
		rt.fake.Intercept = func(r *uverbs.Request) error {
			if r.Object == abi.UVERBS_OBJECT_DEVICE && (r.Method == abi.UVERBS_METHOD_QUERY_PORT || r.Method == abi.UVERBS_METHOD_QUERY_GID_ENTRY) {
				return nil // these may fail, see TestOpenPortFails and TestOpenOldKernel
			}
			if calls++; calls == n {
				return syscall.ENOMEM
			}
			return nil
		}
		err := func() error {
			dev, err := rt.h.Open("rxe0")
			if err != nil {
				return err
			}
			defer dev.Close()
			pd, err := dev.DefaultPD()
			if err != nil {
				return err
			}
			qp, err := pd.CreateQP(verbs.QPConfig{})
			if err != nil {
				return err
			}
			calls = 1 << 20
			return qp.Close()
		}()
		if rt.fake.Opened() != 0 {
			t.Fatalf("failed command %d: the context is still open", n)
		}
		if err == nil {
			if n < 7 {
				t.Errorf("%d commands, want at least 7", n)
			}
			return
		}
		if !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("failed command %d: error = %v, want ENOMEM", n, err)
		}
	}
}

func TestMarkRemoved(t *testing.T) {
	rt := fakeRoute()
	l, r := rt.pair(t, verbs.QPCap{})
	r.recv(t, verbs.RecvWR{ID: 1})
	waits := make(chan error)
	for _, cq := range []*verbs.CQ{l.cq, l.cq, r.cq} {
		go func() {
			_, err := cq.Wait(context.Background(), make([]verbs.WC, 1))
			waits <- err
		}()
	}
	time.Sleep(10 * time.Millisecond)
	internals.MarkRemoved(l.dev)
	internals.MarkRemoved(r.dev)
	for range 3 {
		if err := <-waits; !isRemoved(err) {
			t.Errorf("Wait = %v, want a removal error", err)
		}
	}
	if rt.fake.Opened() != 0 {
		t.Error("the context is still open")
	}
	var b verbs.Batch
	b.Reset(l.qp)
	b.SendInline(1, nil, 0)
	if err := b.Post(); !isRemoved(err) {
		t.Errorf("Post of a batch = %v, want a removal error", err)
	}
	if _, err := l.qp.Query(); !isRemoved(err) {
		t.Errorf("QP.Query: error = %v, want a removal error", err)
	}
	if _, err := l.cq.Poll(make([]verbs.WC, 1)); !isRemoved(err) || !strings.Contains(err.Error(), "RDMA device rxe0 was removed") {
		t.Errorf("Poll = %v, want a removal error of rxe0", err)
	}
	l.buf.Bytes()[0] = 1 // the program's until it is closed
	dev, err := rt.h.Open("rxe0")
	if err != nil || dev.Same(l.dev) {
		t.Fatalf("Open of the device that is back = %v, want a new context", err)
	}
	dev.Close()
}

// TestPollDuringRemoval replaces the rings with zeros, which look like completions, while
// goroutines poll them.
func TestPollDuringRemoval(t *testing.T) {
	for range 100 {
		rt := fakeRoute()
		t.Run("", func(t *testing.T) {
			l, r := rt.pair(t, verbs.QPCap{})
			r.recv(t, verbs.RecvWR{ID: 1})
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			r.ok(t, 1)
			l.ok(t, 1)
			polled := make(chan error)
			started := make(chan struct{}, 2)
			for range 2 {
				go func() {
					wcs := make([]verbs.WC, 4)
					started <- struct{}{}
					for {
						n, err := l.cq.Poll(wcs)
						if n > 0 && err == nil {
							err = errors.New("Poll returned an invented completion")
						}
						if err != nil {
							polled <- err
							return
						}
					}
				}()
			}
			<-started
			<-started
			internals.MarkRemoved(l.dev)
			for range 2 {
				if err := <-polled; !isRemoved(err) {
					t.Errorf("Poll = %v, want a removal error", err)
				}
			}
		})
	}
}

// oneDevice is a kernel with one device that cannot be opened.
type oneDevice struct {
	info uverbs.DeviceInfo
	err  error
}

func (k oneDevice) Devices() ([]uverbs.DeviceInfo, error)            { return []uverbs.DeviceInfo{k.info}, nil }
func (k oneDevice) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return nil, k.err }

func TestOpenErrors(t *testing.T) {
	drivers := []provider.Driver{rxe.Driver{}}
	node := uverbs.DeviceInfo{Name: "x0", Node: "/dev/infiniband/uverbs7", DriverID: abi.RDMA_DRIVER_RXE, ABIVersion: 2}
	for name, c := range map[string]struct {
		change func(*uverbs.DeviceInfo)
		err    error
		is     error
		text   string
	}{
		"no node":     {func(i *uverbs.DeviceInfo) { i.Node = "" }, nil, fs.ErrNotExist, "ib_uverbs"},
		"missing":     {nil, &fs.PathError{Op: "open", Path: node.Node, Err: syscall.ENOENT}, fs.ErrNotExist, "no device node /dev/infiniband/uverbs7"},
		"forbidden":   {nil, &fs.PathError{Op: "open", Path: node.Node, Err: syscall.EACCES}, fs.ErrPermission, "no permission to read and write /dev/infiniband/uverbs7"},
		"too many":    {nil, &fs.PathError{Op: "open", Path: node.Node, Err: syscall.EMFILE}, syscall.EMFILE, "RLIMIT_NOFILE is "},
		"no provider": {func(i *uverbs.DeviceInfo) { i.DriverID = abi.RDMA_DRIVER_QEDR }, nil, errors.ErrUnsupported, "no Go provider for driver qedr"},
		"other ABI":   {func(i *uverbs.DeviceInfo) { i.ABIVersion = 9 }, nil, errors.ErrUnsupported, "driver rxe has ABI version 9, the Go provider supports 2 to 2"},
	} {
		info := node
		if c.change != nil {
			c.change(&info)
		}
		h := &verbs.Host{Drivers: drivers, Kernel: oneDevice{info, c.err}}
		_, err := h.Open("x0")
		var op *verbs.OpError
		if !errors.As(err, &op) || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: Open = %v, want an OpError of %v with %q", name, err, c.is, c.text)
		}
	}
}

// TestOpenUnknown checks that the error for an unknown device name lists the existing devices.
func TestOpenUnknown(t *testing.T) {
	for words, names := range map[string][]string{
		"there is none (run rdmadoctor": nil,
		"there is only rxe0":            {"rxe0"},
		"there are rxe0, rxe1":          {"rxe0", "rxe1"},
	} {
		h := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New(names...)}
		if _, err := h.Open("rxe7"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "open rxe7: no such RDMA device: "+words) {
			t.Errorf("Open of an unknown device among %q = %v, want %q in it", names, err, words)
		}
	}
}

func TestWrongObjects(t *testing.T) {
	rt := fakeRoute()
	a, b := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	if _, err := a.pd.CreateQP(verbs.QPConfig{SendCQ: a.cq, RecvCQ: b.cq}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateQP with a CQ of another device = %v, want EINVAL", err)
	}
	if _, err := a.dev.CreateCQ(verbs.CQConfig{Channel: b.cq.Channel()}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateCQ with a channel of another device = %v, want EINVAL", err)
	}
	if _, err := a.dev.CreateCQ(verbs.CQConfig{Entries: 1 << 20}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateCQ with too many entries = %v, want EINVAL", err)
	}
	if _, err := a.pd.CreateQP(verbs.QPConfig{Type: 9}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CreateQP of type 9 = %v, want ErrUnsupported", err)
	}
	if _, err := a.pd.CreateQP(verbs.QPConfig{Cap: verbs.QPCap{SendWR: -1}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateQP with a negative capacity = %v, want EINVAL", err)
	}
	cq, err := a.dev.CreateCQ(verbs.CQConfig{NoEvents: true})
	if err != nil {
		t.Fatalf("Device.CreateCQ: %v", err)
	}
	if _, err := cq.Wait(context.Background(), make([]verbs.WC, 1)); err == nil || cq.Arm(false) == nil {
		t.Errorf("Wait without a channel = %v, or Arm succeeded, want errors", err)
	}
	for range 2 {
		if err := cq.Close(); err != nil {
			t.Errorf("CQ.Close: %v", err)
		}
	}
	if _, err := cq.Poll(make([]verbs.WC, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Poll of a closed CQ = %v, want net.ErrClosed", err)
	}
	if _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); !errors.Is(err, syscall.EINVAL) || a.qp.State() != verbs.QPReset {
		t.Errorf("PostSend in RESET = %v, want EINVAL", err)
	}
	var te *verbs.TransitionError
	if err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState); !errors.As(err, &te) {
		t.Errorf("Modify from RESET to RTS = %v, want a TransitionError", err)
	}
}
