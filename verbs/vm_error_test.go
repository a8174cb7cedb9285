// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestVMSendInv(t *testing.T) {
	routes(t, func(t *testing.T, a, b vmtest.Host) {
		l, r := pair(t, a, b, verbs.QPCap{})
		r.recv(t, verbs.RecvWR{ID: 100, SGList: []verbs.SGE{r.buf.Slice(0, 64)}})
		// rxe invalidates no key of a plain memory region: that it tries shows
		// that the key arrived.
		l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSendInv, InvalidateRKey: r.buf.RKey(), Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 64)}})
		wc := r.collect(t, 1)[100]
		if wc.Status != verbs.WCRemInvReqErr {
			t.Errorf("receive completion %+v", wc)
		}
		var e *verbs.WCError
		if err := wc.Err(); !errors.As(err, &e) || e.QPNum != r.qp.Num() || e.ID != 100 || !strings.Contains(err.Error(), "remote invalid request") {
			t.Errorf("error of the completion: %v", wc.Err())
		}
	})
}

func TestVMRemoteAccessError(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	l, r := pair(t, hosts[0], hosts[1], verbs.QPCap{})
	l.send(t,
		verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey() ^ 0x55, SGList: []verbs.SGE{l.buf.Slice(0, 8)}},
		verbs.SendWR{ID: 2, Opcode: verbs.OpSend, InlineData: []byte("flushed")},
	)
	got := l.collect(t, 2) // errors complete without SendSignaled, too
	if got[1].Status != verbs.WCRemAccessErr || got[2].Status != verbs.WCWRFlushErr {
		t.Errorf("completions %+v", got)
	}
	if a, err := l.qp.Query(); err != nil || a.State != verbs.QPErr {
		t.Errorf("QP is in %v, %v", a.State, err)
	}
}

func TestVMFlush(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	l, r := pair(t, hosts[0], hosts[0], verbs.QPCap{})
	sge := []verbs.SGE{r.buf.Slice(0, 64)}
	r.recv(t, verbs.RecvWR{ID: 1, SGList: sge}, verbs.RecvWR{ID: 2, SGList: sge})
	modify(t, r.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
	r.recv(t, verbs.RecvWR{ID: 3, SGList: sge})
	r.send(t, verbs.SendWR{ID: 4, Opcode: verbs.OpSend, SGList: sge})
	for id, wc := range r.collect(t, 4) {
		if wc.Status != verbs.WCWRFlushErr {
			t.Errorf("work request %d: %v", id, wc.Status)
		}
	}
	// Back to RTS: the rings go on where they are.
	modify(t, r.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
	if _, err := r.qp.PostRecv([]verbs.RecvWR{{}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("PostRecv in RESET: %v", err)
	}
	l.connectTo(t, r)
	if _, err := l.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); err != nil {
		t.Fatal(err)
	}
	r.connectTo(t, l)
	r.recv(t, verbs.RecvWR{ID: 5, SGList: sge})
	r.ok(t, 1)
}

func TestVMFull(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	l, r := pair(t, hosts[0], hosts[0], verbs.QPCap{SendWR: 10, RecvWR: 10})
	n := l.qp.Cap().RecvWR
	wrs := make([]verbs.RecvWR, n+3)
	if got, err := r.qp.PostRecv(wrs); got != n || !errors.Is(err, verbs.ErrFull) {
		t.Errorf("PostRecv of %d to a queue of %d: %d, %v", len(wrs), n, got, err)
	}
	// Nothing is lost when a send queue is overrun: go on when there is room.
	wr := []verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 4096)}}}
	ctx := deadline(t)
	wcs := make([]verbs.WC, 8)
	for posted, done := 0, 0; done < 200; {
		for posted < 200 {
			wr[0].ID = uint64(posted)
			_, err := l.qp.PostSend(wr)
			if errors.Is(err, verbs.ErrFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			posted++
		}
		k, err := l.cq.Wait(ctx, wcs)
		if err != nil {
			t.Fatal(err)
		}
		for _, wc := range wcs[:k] {
			if wc.Err() != nil || wc.ID != uint64(done) {
				t.Fatalf("completion %d: %+v", done, wc)
			}
			done++
		}
	}
}

func TestVMWaitEnds(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	l, _ := pair(t, hosts[0], hosts[0], verbs.QPCap{})
	wcs := make([]verbs.WC, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.cq.Wait(ctx, wcs); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait past its deadline: %v", err)
	}
	cq, err := l.dev.CreateCQ(verbs.CQConfig{Entries: 1, Channel: l.cq.Channel()})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		_, err := cq.Wait(context.Background(), wcs)
		got <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := cq.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait on a closed CQ: %v", err)
	}
}

// TestVMMemlock registers more than RLIMIT_MEMLOCK allows, on a thread without
// the capability that lifts the limit.
func TestVMMemlock(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	dev, err := verbs.DefaultHost().Open(hosts[0].Device)
	if err != nil {
		t.Fatal(err)
	}
	closer(t, dev)
	pd, err := dev.DefaultPD()
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 65536, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its rights
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&hdr, &data[0]); err != nil {
			result <- err
			return
		}
		data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
		if err := unix.Capset(&hdr, &data[0]); err != nil {
			result <- err
			return
		}
		mr, err := pd.Alloc(1<<20, verbs.LocalWrite)
		if err == nil {
			mr.Close()
		}
		result <- err
	}()
	err = <-result
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "RLIMIT_MEMLOCK is 65536 bytes") {
		t.Errorf("registering 1 MiB with a limit of 64 KiB: %v", err)
	}
}

// TestVMRemoved deletes a device under its users.
func TestVMRemoved(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	host := hosts[1]
	h := verbs.DefaultHost()
	e := newEnd(t, h, host, verbs.QPCap{})
	other := newEnd(t, h, host, verbs.QPCap{})
	e.connectTo(t, other)
	e.recv(t, verbs.RecvWR{ID: 1, SGList: []verbs.SGE{e.buf.Slice(0, 64)}})

	ends := make(chan error)
	for range 3 {
		go func() {
			_, err := e.cq.Wait(context.Background(), make([]verbs.WC, 1))
			ends <- err
		}()
	}
	polling := make(chan error)
	go func() { // a poller must see the end and never a wrong completion
		wcs := make([]verbs.WC, 4)
		for {
			if n, err := other.cq.Poll(wcs); err != nil || n > 0 {
				if n > 0 {
					t.Errorf("polled %+v", wcs[:n])
				}
				polling <- err
				return
			}
		}
	}()
	time.Sleep(20 * time.Millisecond)

	deleted := make(chan error)
	go func() { deleted <- netlink.RdmaLinkDel(host.Device) }()
	time.Sleep(50 * time.Millisecond)
	select {
	case err := <-deleted:
		t.Fatalf("the device went while it was in use: %v", err)
	default: // as the kernel does it: it waits for us
	}
	start := time.Now()
	e.dev.MarkRemoved()
	e.dev.MarkRemoved()
	for range 3 {
		if err := <-ends; !isRemoved(err) {
			t.Errorf("Wait on a removed device: %v", err)
		}
	}
	if err := <-polling; !isRemoved(err) {
		t.Errorf("Poll on a removed device: %v", err)
	}
	if err := <-deleted; err != nil {
		t.Errorf("rdma link delete: %v", err)
	}
	t.Logf("deleted %v after MarkRemoved", time.Since(start))
	select {
	case <-e.dev.Removed():
	default:
		t.Error("Removed is not closed")
	}
	if _, err := e.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); !isRemoved(err) {
		t.Errorf("PostSend on a removed device: %v", err)
	}
	if _, err := e.qp.PostRecv([]verbs.RecvWR{{}}); !isRemoved(err) {
		t.Errorf("PostRecv on a removed device: %v", err)
	}
	if err := e.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); !isRemoved(err) {
		t.Errorf("Modify on a removed device: %v", err)
	}
	if _, err := e.dev.CreateCQ(verbs.CQConfig{}); !isRemoved(err) {
		t.Errorf("CreateCQ on a removed device: %v", err)
	}
	if _, err := e.pd.Alloc(10, 0); !isRemoved(err) {
		t.Errorf("Alloc on a removed device: %v", err)
	}

	if err := netlink.RdmaLinkAdd(host.Device, "rxe", host.Interface); err != nil {
		t.Fatal(err)
	}
	// The GID of the address comes a moment after the device.
	var err error
	for range 100 {
		var dev *verbs.Device
		if dev, err = h.Open(host.Device); err == nil {
			if dev.Same(e.dev) {
				t.Error("Open returned the removed device")
			}
			if gids, _ := dev.GIDs(); len(gids) > 1 {
				dev.Close()
				return
			}
			dev.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("the device did not come back: %v", err)
}

func isRemoved(err error) bool {
	var e *verbs.DeviceRemovedError
	return errors.As(err, &e)
}

func TestVMBusy(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	l, _ := pair(t, hosts[0], hosts[0], verbs.QPCap{})
	for what, err := range map[string]error{"PD": l.pd.Close(), "CQ": l.cq.Close(), "channel": l.cq.Channel().Close()} {
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Close of a %s in use: %v", what, err)
		}
	}
}
