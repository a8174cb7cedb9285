// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestVMDevices(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	infos, err := verbs.DefaultHost().Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		found := false
		for _, i := range infos {
			found = found || i.Name == h.Device
		}
		if !found {
			t.Errorf("%s is not among %+v", h.Device, infos)
		}
		dev := openDevice(t, verbs.DefaultHost(), h.Device)
		again, err := internals.OpenIndex(verbs.DefaultHost(), dev.Index(), dev.NodeGUID())
		if err != nil {
			t.Fatal(err)
		}
		closer(t, again)
		if !again.Same(dev) {
			t.Error("the device was opened twice")
		}
		port, err := dev.QueryPort(1)
		if err != nil {
			t.Fatal(err)
		}
		transport, iwarp := verbs.TransportIB, vmtest.Driver() == "siw"
		if iwarp {
			transport = verbs.TransportIWARP
		}
		if dev.Transport() != transport || dev.LinkLayer(1) != verbs.LinkEthernet || port.State != verbs.PortActive {
			t.Errorf("%s: %v, %v, port %+v", h.Device, dev.Transport(), dev.LinkLayer(1), port)
		}
		if a := dev.Attr(); a.MaxMRSize <= 4096 || a.PageSizes < 4096 || a.VendorID == 0 || a.MaxQPWR == 0 || a.MaxSGE == 0 || a.MaxCQ == 0 || a.MaxCQE == 0 || a.MaxMR == 0 || a.MaxPD == 0 || a.MaxPKeys == 0 && !iwarp || a.SysImageGUID == 0 || a.Ports != 1 {
			t.Errorf("%s: %+v", h.Device, a)
		}
		if _, err := dev.QueryPort(7); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: port 7: %v", h.Device, err)
		}
		if a := dev.Attr(); a.MaxQP == 0 || a.MaxQPRdAtom == 0 || a.MaxQPInitRdAtom == 0 || a.NodeGUID != dev.NodeGUID() {
			t.Errorf("%s: %+v", h.Device, a)
		}
		gids, err := dev.GIDs()
		if err != nil || len(gids) == 0 {
			t.Fatalf("GIDs: %+v, %v", gids, err)
		}
		for _, g := range gids {
			if one, err := dev.GID(g.Port, int(g.Index)); err != nil || one != g || g.Ifindex == 0 && !iwarp {
				t.Errorf("GID %+v, in the table %+v, %v", one, g, err)
			}
		}
		if _, err := dev.GID(1, len(gids)+5); !errors.Is(err, syscall.ENODATA) && !(iwarp && err != nil) {
			t.Errorf("GID that is not there: %v", err)
		}
		if _, err := dev.GID(1, 1<<20); err == nil {
			t.Error("GID beyond the table")
		}
		t.Logf("%s: %+v %+v", h.Device, dev.Attr(), port)
	}
	if _, err := verbs.DefaultHost().Open("no such device"); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("Open of no device: %v", err)
	}
}

// TestVMNoProvider opens a device by a Host that has all drivers but that device's.
func TestVMNoProvider(t *testing.T) {
	name := vmtest.Hosts(t, 1)[0].Device
	var others verbs.Host
	for _, d := range verbs.DefaultHost().Drivers {
		if d.ID().String() != vmtest.Driver() {
			others.Drivers = append(others.Drivers, d)
		}
	}
	_, err := others.Open(name)
	var missing *verbs.NoProviderError
	if !errors.As(err, &missing) || missing.Device != name || !strings.Contains(err.Error(), "no Go provider for driver "+vmtest.Driver()) {
		t.Errorf("Open of %s without its driver: %v", name, err)
	}
	// The process goes on, and the device works.
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	r.recv(t, verbs.RecvWR{ID: 1})
	l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	l.ok(t, 1)
	r.ok(t, 1)
}

// TestVMMemlock registers more than RLIMIT_MEMLOCK allows, on a thread without
// the capability that lifts the limit.
func TestVMMemlock(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	dev := openDevice(t, verbs.DefaultHost(), hosts[0].Device)
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
	if e.dev.Transport() == verbs.TransportIWARP {
		connect(t, e, other)
	} else {
		e.connectTo(t, other)
	}
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

	deleted := make(chan error, 1)
	go func() { deleted <- host.Unplug() }()
	time.Sleep(50 * time.Millisecond)
	// Up to Linux 7.2 rxe waits for us; since 7.3 it takes the device away under
	// its users.
	select {
	case err := <-deleted:
		t.Logf("the device went while it was in use")
		deleted <- err
	default:
	}
	start := time.Now()
	internals.MarkRemoved(e.dev)
	internals.MarkRemoved(e.dev)
	flushed := 0
	if vmtest.Driver() == "siw" {
		flushed = 1 // the receive: its connection may end first
	}
	for range 3 {
		err := <-ends
		if err == nil && flushed > 0 {
			flushed--
		} else if !isRemoved(err) {
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
	case <-e.dev.Done():
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

	replug(t, h, host, e.dev)
}
