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
		t.Fatalf("Host.Devices: %v", err)
	}
	for _, h := range hosts {
		found := false
		for _, i := range infos {
			found = found || i.Name == h.Device
		}
		if !found {
			t.Errorf("Devices() does not list %s: %+v", h.Device, infos)
		}
		dev := openDevice(t, verbs.DefaultHost(), h.Device)
		again, err := internals.OpenIndex(verbs.DefaultHost(), dev.Index(), dev.NodeGUID())
		if err != nil {
			t.Fatalf("Verbs.OpenIndex: %v", err)
		}
		closer(t, again)
		if !again.Same(dev) {
			t.Error("OpenIndex opened a second context")
		}
		port, err := dev.QueryPort(1)
		if err != nil {
			t.Fatalf("Device.QueryPort: %v", err)
		}
		transport, iwarp := verbs.TransportIB, vmtest.IWARP()
		if iwarp {
			transport = verbs.TransportIWARP
		}
		if dev.Transport() != transport || dev.LinkLayer(1) != verbs.LinkEthernet || port.State != verbs.PortActive {
			t.Errorf("%s: Transport(), LinkLayer(1) = %v, %v with port %+v, want an active Ethernet port", h.Device, dev.Transport(), dev.LinkLayer(1), port)
		}
		if a := dev.Attr(); a.MaxMRSize <= 4096 || a.PageSizes < 4096 || a.VendorID == 0 || a.MaxQPWR == 0 || a.MaxSGE == 0 || a.MaxCQ == 0 || a.MaxCQE == 0 || a.MaxMR == 0 || a.MaxPD == 0 || a.MaxPKeys == 0 && !iwarp || a.SysImageGUID == 0 || a.Ports != 1 {
			t.Errorf("%s: Attr() = %+v, want limits above zero", h.Device, a)
		}
		if _, err := dev.QueryPort(7); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: QueryPort(7) = %v, want EINVAL", h.Device, err)
		}
		if a := dev.Attr(); a.MaxQP == 0 || a.MaxQPRdAtom == 0 || a.MaxQPInitRdAtom == 0 || a.NodeGUID != dev.NodeGUID() {
			t.Errorf("%s: Attr() = %+v, want QP limits above zero and the node GUID", h.Device, a)
		}
		gids, err := dev.GIDs()
		if err != nil || len(gids) == 0 {
			t.Fatalf("GIDs() = %+v, %v, want at least one, nil", gids, err)
		}
		for _, g := range gids {
			if one, err := dev.GID(g.Port, int(g.Index)); err != nil || one != g || g.Ifindex == 0 && !iwarp {
				t.Errorf("GID(%d, %d) = %+v, %v, want %+v as in the table", g.Port, g.Index, one, err, g)
			}
		}
		if _, err := dev.GID(1, len(gids)+5); !errors.Is(err, syscall.ENODATA) && !(iwarp && err != nil) {
			t.Errorf("GID of an empty entry = %v, want ENODATA", err)
		}
		if _, err := dev.GID(1, 1<<20); err == nil {
			t.Error("GID beyond the table succeeded")
		}
		t.Logf("%s: %+v %+v", h.Device, dev.Attr(), port)
	}
	if _, err := verbs.DefaultHost().Open("no such device"); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("Open of an unknown device = %v, want ErrNoDevice", err)
	}
}

// TestVMNoProvider opens a device with a Host that has all drivers except the device's driver.
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
		t.Errorf("Open of %s without its driver = %v, want a NoProviderError", name, err)
	}
	// The process continues, and the device works.
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	r.recv(t, verbs.RecvWR{ID: 1})
	l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	l.ok(t, 1)
	r.ok(t, 1)
}

// TestVMMemlock registers more than RLIMIT_MEMLOCK allows, and creates queues of such a size, on a thread without
// the capability that lifts the limit. The kernel does not count the queues of software devices.
func TestVMMemlock(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	dev := openDevice(t, verbs.DefaultHost(), hosts[0].Device)
	pd, err := dev.DefaultPD()
	if err != nil {
		t.Fatalf("Device.DefaultPD: %v", err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatalf("unix.Getrlimit: %v", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 65536, Max: old.Max}); err != nil {
		t.Fatalf("unix.Setrlimit: %v", err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)
	var queues error
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its capabilities
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
		cq, cerr := dev.CreateCQ(verbs.CQConfig{Entries: 8000})
		if cerr == nil {
			cq.Close()
		}
		queues = cerr
		result <- err
	}()
	err = <-result
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "RLIMIT_MEMLOCK is 65536 bytes") {
		t.Errorf("registration of 1 MiB with a limit of 64 KiB = %v, want ENOMEM with the limit", err)
	}
	limited := errors.Is(queues, syscall.ENOMEM) && strings.Contains(queues.Error(), "RLIMIT_MEMLOCK is 65536 bytes")
	if software := vmtest.Driver() == "rxe" || vmtest.Driver() == "siw"; software && queues != nil || !software && !limited {
		t.Errorf("CreateCQ of 8000 entries with a limit of 64 KiB on %s = %v", vmtest.Driver(), queues)
	}
}

// TestVMRemoved deletes a device while it is in use.
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
	go func() { // a poller must get the removal error and never a wrong completion
		wcs := make([]verbs.WC, 4)
		for {
			if n, err := other.cq.Poll(wcs); err != nil || n > 0 {
				if n > 0 {
					t.Errorf("Poll = %+v during the removal, want no completion", wcs[:n])
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
	// rxe up to Linux 7.2 waits for the program. Since Linux 7.3 it removes the device while it
	// is in use.
	select {
	case err := <-deleted:
		t.Logf("the device was removed while it was in use")
		deleted <- err
	default:
	}
	start := time.Now()
	internals.MarkRemoved(e.dev)
	internals.MarkRemoved(e.dev)
	flushed := 0
	if vmtest.IWARP() {
		flushed = 1 // the receive, whose connection may end first
	}
	for range 3 {
		err := <-ends
		if err == nil && flushed > 0 {
			flushed--
		} else if !isRemoved(err) {
			t.Errorf("Wait on a removed device = %v, want a removal error", err)
		}
	}
	if err := <-polling; !isRemoved(err) {
		t.Errorf("Poll on a removed device = %v, want a removal error", err)
	}
	if err := <-deleted; err != nil {
		t.Errorf("rdma link delete: %v", err)
	}
	t.Logf("deleted %v after MarkRemoved", time.Since(start))
	select {
	case <-e.dev.Done():
	default:
		t.Error("Done of the removed device is not closed")
	}
	if _, err := e.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); !isRemoved(err) {
		t.Errorf("PostSend on a removed device = %v, want a removal error", err)
	}
	if _, err := e.qp.PostRecv([]verbs.RecvWR{{}}); !isRemoved(err) {
		t.Errorf("PostRecv on a removed device = %v, want a removal error", err)
	}
	if err := e.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); !isRemoved(err) {
		t.Errorf("Modify on a removed device = %v, want a removal error", err)
	}
	if _, err := e.dev.CreateCQ(verbs.CQConfig{}); !isRemoved(err) {
		t.Errorf("CreateCQ on a removed device = %v, want a removal error", err)
	}
	if _, err := e.pd.Alloc(10, 0); !isRemoved(err) {
		t.Errorf("Alloc on a removed device = %v, want a removal error", err)
	}

	replug(t, h, host, e.dev)
}
