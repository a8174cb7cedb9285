// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"purerdma/verbs"
)

// refused checks the error of an operation that RefuseRemote forbids.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	var op *verbs.OpError
	if !errors.As(err, &op) || !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "the PD refuses remote access") {
		t.Errorf("%s in a PD that refuses remote access: error = %v, want an OpError with EPERM", what, err)
	}
}

// TestRefuseRemote tries every way to make memory that peers can reach. The PD remains closable, so
// a refused operation leaves nothing behind.
func TestRefuseRemote(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.a.Device)
		pd, other := allocPD(t, dev), allocPD(t, dev)
		mr, err := pd.Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("PD.Alloc: %v", err)
		}
		open, err := other.Alloc(4096, everything)
		if err != nil {
			t.Fatalf("PD.Alloc: %v", err)
		}
		for range 2 {
			if err := pd.RefuseRemote(); err != nil {
				t.Fatalf("PD.RefuseRemote: %v", err)
			}
		}
		for _, right := range []verbs.Access{verbs.RemoteRead, verbs.RemoteWrite, verbs.RemoteAtomic, verbs.FlushGlobal, verbs.FlushPersistent} {
			access := verbs.LocalWrite | right
			for what, err := range map[string]error{
				"Alloc":     second(pd.Alloc(4096, access)),
				"AllocHuge": second(pd.AllocHuge(1<<21, access)),
				"RegMR":     second(pd.RegMR(make([]byte, 4096), access)),
				"on demand": second(pd.RegMR(make([]byte, 4096), access|verbs.OnDemand)),
				"RegDMABuf": second(pd.RegDMABuf(0, 0, 4096, 0, access)),
				"rights":    mr.Reregister(verbs.MRChange{Access: &access}),
				"move":      mr.Reregister(verbs.MRChange{Access: &access, PD: pd}),
			} {
				if what == "AllocHuge" && errors.Is(err, syscall.ENOMEM) {
					continue // the machine has no such pages
				}
				refused(t, what+" with "+access.String(), err)
			}
		}
		refused(t, "Reregister of memory with rights", open.Reregister(verbs.MRChange{PD: pd}))
		_, err = pd.AllocMW(verbs.MWType1)
		refused(t, "AllocMW(MWType1)", err)
		if mr.Access() != verbs.LocalWrite || open.PD() != other || open.Access() != everything {
			t.Errorf("memory after refused changes has %v, and %v on the other PD: %v, want no changes", mr.Access(), open.Access(), open.PD() == other)
		}
		if bound, err := pd.Alloc(4096, verbs.LocalWrite|verbs.MWBind); err != nil {
			t.Errorf("PD.Alloc with MWBind: %v", err)
		} else {
			closer(t, bound)
		}
		if dev.Features().MWType2 {
			w, err := pd.AllocMW(verbs.MWType2)
			if err != nil {
				t.Errorf("PD.AllocMW(MWType2): %v", err)
			} else {
				closer(t, w)
			}
		}
		for what, err := range map[string]error{"MR": mr.Close(), "other MR": open.Close()} {
			if err != nil {
				t.Errorf("Close of the %s: %v", what, err)
			}
		}
	})
}

// TestRefuseRemoteBusy restricts a PD that has memory with rights for peers. It succeeds when the
// memory is closed, moved, or has lost the rights.
func TestRefuseRemoteBusy(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.a.Device)
		other := allocPD(t, dev)
		busy := func(name string, make func(pd *verbs.PD) (end func() error, err error)) {
			pd := allocPD(t, dev)
			end, err := make(pd)
			if errors.Is(err, errors.ErrUnsupported) {
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := pd.RefuseRemote(); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("%s: PD.RefuseRemote: error = %v, want EBUSY", name, err)
			}
			if err := end(); errors.Is(err, errors.ErrUnsupported) {
				return
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := pd.RefuseRemote(); err != nil {
				t.Errorf("%s: PD.RefuseRemote after the end of the memory: %v", name, err)
			}
		}
		memory := func(end func(mr *verbs.MR) error) func(pd *verbs.PD) (func() error, error) {
			return func(pd *verbs.PD) (func() error, error) {
				mr, err := pd.Alloc(4096, verbs.LocalWrite|verbs.RemoteRead)
				if err == nil {
					closer(t, mr)
				}
				return func() error { return end(mr) }, err
			}
		}
		busy("closed", memory((*verbs.MR).Close))
		busy("moved", memory(func(mr *verbs.MR) error { return mr.Reregister(verbs.MRChange{PD: other}) }))
		local := verbs.LocalWrite
		busy("changed", memory(func(mr *verbs.MR) error { return mr.Reregister(verbs.MRChange{Access: &local}) }))
		busy("window", func(pd *verbs.PD) (func() error, error) {
			w, err := pd.AllocMW(verbs.MWType1)
			if err == nil {
				closer(t, w)
			}
			return func() error { return w.Close() }, err
		})
	})
}

// TestRefuseRemoteElsewhere restricts PDs that cannot be restricted.
func TestRefuseRemoteElsewhere(t *testing.T) {
	rt := fakeRoute()
	dev := openDevice(t, rt.h, rt.a.Device)
	shared, err := dev.DefaultPD()
	if err != nil {
		t.Fatalf("Device.DefaultPD: %v", err)
	}
	if err := shared.RefuseRemote(); !errors.Is(err, syscall.EPERM) {
		t.Errorf("RefuseRemote of the default PD: error = %v, want EPERM", err)
	}
	pd := allocPD(t, dev)
	if err := pd.Close(); err != nil {
		t.Fatalf("PD.Close: %v", err)
	}
	if err := pd.RefuseRemote(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("RefuseRemote of a closed PD: error = %v, want net.ErrClosed", err)
	}
}
