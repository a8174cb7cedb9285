// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// watching is a kernel that registers memory by its address only, so that the garbage collector
// does not see the use. At every command, and when a device is closed, all registered memory
// must be mapped.
type watching struct {
	uverbs.Kernel
	t      *testing.T
	refuse atomic.Bool // MR_DESTROY
	closed chan struct{}
	slow   chan struct{} // lets Close continue

	mu   sync.Mutex
	last uint64
	mrs  map[uint64]uintptr // by handle
}

type watchingDevice struct {
	uverbs.Transport
	k *watching
}

func newWatching(t *testing.T) (*watching, *Device, *PD) {
	k := &watching{Kernel: uverbstest.New("rxe0"), t: t, closed: make(chan struct{}), slow: make(chan struct{}), mrs: map[uint64]uintptr{}}
	dev, err := (&Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: k}).Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("Device.AllocPD: %v", err)
	}
	return k, dev, pd
}

func (k *watching) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return watchingDevice{t, k}, err
}

// there reports whether memory is mapped.
func there(addr uintptr) bool {
	page := uintptr(os.Getpagesize())
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, addr&^(page-1), page, syscall.MADV_NORMAL)
	return errno == 0
}

// marks counts the calls of mark.
var marks atomic.Uint64

// mark writes a value into memory that no other memory has. The result reports whether the memory still exists. After
// its end, other memory may have its address.
func mark(t *testing.T, mr *MR) (exists func() bool) {
	t.Helper()
	var want, got [8]byte
	binary.NativeEndian.PutUint64(want[:], marks.Add(1)<<32|uint64(os.Getpid()))
	copy(mr.Bytes(), want[:])
	addr := int64(mr.Addr())
	return func() bool {
		t.Helper()
		f, err := os.Open("/proc/self/mem")
		if err != nil {
			t.Fatalf("os.Open: %v", err)
		}
		defer f.Close()
		n, _ := f.ReadAt(got[:], addr) // an error where nothing is mapped
		return n == len(got) && got == want
	}
}

// look fails the test if registered memory is not mapped.
func (k *watching) look(when string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for h, addr := range k.mrs {
		if !there(addr) {
			k.t.Errorf("%s: the registered memory of MR %d is not mapped", when, h)
		}
	}
}

func (d watchingDevice) Ioctl(req *uverbs.Request) error {
	d.k.look(req.Name())
	select {
	case <-d.k.closed: // closing or closed, so that there are no more calls
		return net.ErrClosed
	default:
	}
	if req.Object == abi.UVERBS_OBJECT_MR && req.Method == abi.UVERBS_METHOD_MR_DESTROY {
		if d.k.refuse.Load() {
			return syscall.EBUSY
		}
		d.k.mu.Lock()
		defer d.k.mu.Unlock()
		delete(d.k.mrs, req.Attrs[0].Value)
		return nil
	}
	code := req.Find(abi.UVERBS_ATTR_WRITE_CMD)
	if req.Method != abi.UVERBS_METHOD_INVOKE_WRITE || code == nil || uverbs.Number(code.Buf) != abi.IB_USER_VERBS_CMD_REG_MR {
		return d.Transport.Ioctl(req)
	}
	var cmd abi.UverbsRegMR
	copy(abi.Bytes(&cmd), req.Find(abi.UVERBS_ATTR_CORE_IN).Buf)
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	d.k.last++
	d.k.mrs[d.k.last] = uintptr(cmd.HCAVA) // as chosen by verbs
	copy(req.Find(abi.UVERBS_ATTR_CORE_OUT).Buf, abi.Bytes(&abi.UverbsRegMRResp{MRHandle: uint32(d.k.last), LKey: 1, RKey: 1}))
	return nil
}

func (d watchingDevice) Close() error {
	close(d.k.closed)
	<-d.k.slow
	d.k.look("close")
	clear(d.k.mrs)
	return d.Transport.Close()
}

// alloc registers memory of 64 MiB.
func alloc(t *testing.T, pd *PD) *MR {
	t.Helper()
	mr, err := pd.Alloc(64<<20, LocalWrite)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	return mr
}

func closeAll(t *testing.T, list ...interface{ Close() error }) {
	t.Helper()
	for _, c := range list {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// TestUnmappedAfterDeregistration checks that memory is unmapped when it is deregistered, and
// stays mapped if the kernel refuses.
func TestUnmappedAfterDeregistration(t *testing.T) {
	k, dev, pd := newWatching(t)
	close(k.slow)
	mr := alloc(t, pd)
	exists := mark(t, mr)
	k.refuse.Store(true)
	if err := mr.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("refused Close = %v, want EBUSY", err)
	}
	if !exists() {
		t.Error("the memory was unmapped although it is registered")
	}
	k.refuse.Store(false)
	closeAll(t, mr, mr)
	if exists() || mr.Bytes() != nil {
		t.Error("the memory is mapped after Close")
	}
	closeAll(t, pd, dev)
}

// TestUnmappedAfterLastClose checks that memory with several registrations is unmapped with the
// last one, whatever the order.
func TestUnmappedAfterLastClose(t *testing.T) {
	k, dev, pd := newWatching(t)
	close(k.slow)
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		mrs := [3]*MR{alloc(t, pd)}
		exists := mark(t, mrs[0])
		neighbor := alloc(t, pd)
		var err error
		if mrs[1], err = pd.RegMR(mrs[0].Bytes()[100:200], LocalWrite); err != nil {
			t.Fatalf("PD.RegMR: %v", err)
		}
		if mrs[2], err = pd.RegMR(mrs[1].Bytes()[50:], LocalWrite); err != nil {
			t.Fatalf("PD.RegMR: %v", err)
		}
		for _, i := range order {
			if !exists() {
				t.Fatalf("order %v: the memory was unmapped before Close of MR %d", order, i)
			}
			closeAll(t, mrs[i])
			k.look("after Close")
		}
		if exists() {
			t.Errorf("order %v: the memory is mapped after the last Close", order)
		}
		closeAll(t, neighbor)
	}
	if n := len(regions.list); n != 0 {
		t.Errorf("%d regions in the list, want 0", n)
	}
	closeAll(t, pd, dev)
}

// TestUnmappedAfterRemoval checks that the memory of a device that is being closed is unmapped
// when the close has ended.
func TestUnmappedAfterRemoval(t *testing.T) {
	k, dev, pd := newWatching(t)
	mr := alloc(t, pd)
	exists := mark(t, mr)
	removed := make(chan struct{})
	go func() { dev.remove(); close(removed) }()
	<-k.closed
	gone := make(chan error, 1)
	go func() { gone <- mr.Close() }()
	time.Sleep(20 * time.Millisecond)
	k.look("while the device is being closed")
	close(k.slow)
	if err := <-gone; err != nil {
		t.Errorf("Close of the memory: %v", err)
	}
	<-removed
	if exists() {
		t.Error("the memory is mapped after Close")
	}
	closeAll(t, pd, dev)
}

// TestUnreferencedMemoryStays checks that the garbage collector does not free registered memory,
// even if the program has dropped the MR.
func TestUnreferencedMemoryStays(t *testing.T) {
	k, dev, pd := newWatching(t)
	close(k.slow)
	var collected atomic.Bool
	forgotten := func() *MR { // all of it except the memory
		b := new([1 << 16]byte)
		runtime.AddCleanup(b, func(c *atomic.Bool) { c.Store(true) }, &collected)
		mr, err := pd.RegMR(b[:], LocalWrite)
		if err != nil {
			t.Fatalf("PD.RegMR: %v", err)
		}
		return &MR{pd: mr.pd, p: mr.p, leak: mr.leak, addr: mr.addr}
	}()
	collect := func() {
		for range 5 {
			runtime.GC()
			time.Sleep(2 * time.Millisecond)
		}
	}
	collect()
	k.look("after the collection")
	if collected.Load() {
		t.Error("registered memory was collected")
	}
	closeAll(t, forgotten)
	for b := range pinned.set { // only the test pins memory
		if b.addr() == forgotten.addr {
			b.free()
		}
	}
	collect()
	if !collected.Load() {
		t.Error("the memory was not collected without the pin: the test shows nothing")
	}
	closeAll(t, pd, dev)
}

// TestRegions checks that each byte of adjacent regions belongs to its region, and that the
// bytes around and between regions belong to none.
func TestRegions(t *testing.T) {
	var l regionList
	all := new([60]byte)
	base := (&buffer{bytes: all[:]}).addr()
	a, b, c := &buffer{bytes: all[10:20]}, &buffer{bytes: all[20:30]}, &buffer{bytes: all[40:50]}
	for _, r := range []*buffer{c, a, b} {
		l.add(r)
	}
	for i := range uint64(60) {
		var want *buffer
		switch i / 10 {
		case 1:
			want = a
		case 2:
			want = b
		case 4:
			want = c
		}
		if got := l.hold(base + i); got != want {
			t.Errorf("hold of byte %d returned another region", i)
		} else if got != nil && l.drop(got) {
			t.Fatalf("byte %d: drop of the first user = true, want false", i)
		}
	}
	for _, r := range []*buffer{b, c, a} {
		if !l.drop(r) {
			t.Error("drop of the last user = false, want true")
		}
	}
	if len(l.list) != 0 {
		t.Errorf("%d regions left, want 0", len(l.list))
	}
}
