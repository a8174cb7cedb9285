// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// wantFeatures returns the expected features of the devices in the VM. TestProvider posts each
// operation, and TestVMWindows, TestSendInv and TestIWARPSendInv show the invalidations.
func wantFeatures(t *testing.T) verbs.Features {
	switch vmtest.Driver() {
	case "siw":
		return verbs.Features{SendInvMR: true, ReadInv: true, ReadNeedsRemoteWrite: true, LateReads: true}
	case "erdma":
		return verbs.Features{Immediate: true, Atomics: linuxSince(t, 6, 2), ReportsInv: true, ReadNeedsRemoteWrite: true}
	case "bnxt_re":
		// The driver reports atomics if AtomicOps are enabled in the function's PCI registers. It refuses UC and XRC, and has no
		// alloc_mw. The completion of a receive has the key of a SEND_WITH_INV.
		return verbs.Features{UD: true, Immediate: true, Atomics: true, ReportsInv: true}
	case "mlx5":
		return verbs.Features{UC: true, UD: true, XRC: true, Immediate: true, Atomics: true,
			MWType1: true, MWType2: true, LocalInv: true, SendInvMW: true, ReportsInv: true}
	}
	f := verbs.Features{UC: true, Immediate: true, Atomics: true}
	if linuxSince(t, 6, 1) {
		f.UD, f.MWType1, f.MWType2, f.LocalInv, f.SendInvMW, f.ReportsInv = true, true, true, true, true, true
	}
	f.FlushGlobal, f.AtomicWrite = expects(t, flushing), expects(t, atomicWriting)
	f.FlushPersistent = f.FlushGlobal
	return f
}

// TestVMFeatures compares the features of a device with the expected features of its driver
// and kernel. It creates each object that the features include.
func TestVMFeatures(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	vmtest.NoLeaks(t)
	dev := openDevice(t, verbs.DefaultHost(), host.Device)
	got, want := dev.Features(), wantFeatures(t)
	if got != want {
		t.Fatalf("Features() = %+v\nwant         %+v", got, want)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("Device.AllocPD: %v", err)
	}
	closer(t, pd)
	gids, err := dev.GIDs()
	if err != nil {
		t.Fatalf("Device.GIDs: %v", err)
	}
	qp := func(typ verbs.QPType) func() (interface{ Close() error }, error) {
		return func() (interface{ Close() error }, error) { return pd.CreateQP(verbs.QPConfig{Type: typ}) }
	}
	window := func(typ verbs.MWType) func() (interface{ Close() error }, error) {
		return func() (interface{ Close() error }, error) { return pd.AllocMW(typ) }
	}
	for what, o := range map[string]struct {
		has  bool
		make func() (interface{ Close() error }, error)
	}{
		"UC": {got.UC, qp(verbs.UC)},
		"UD": {got.UD, func() (interface{ Close() error }, error) {
			return pd.CreateAH(verbs.AHAttr{Port: 1, Global: true, GRH: verbs.GlobalRoute{DGID: gids[0].GID, SGIDIndex: uint8(gids[0].Index), HopLimit: 64}})
		}},
		"type 1": {got.MWType1, window(verbs.MWType1)},
		"type 2": {got.MWType2, window(verbs.MWType2)},
		"XRC":    {got.XRC, func() (interface{ Close() error }, error) { return dev.OpenXRCD(nil, 0) }},
	} {
		made, err := o.make()
		if err == nil {
			err = made.Close()
		} else if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("creating a %s = %v, want nil or ErrUnsupported", what, err)
			continue
		}
		if (err == nil) != o.has {
			t.Errorf("creating a %s = %v, but the feature is %v", what, err, o.has)
		}
	}
}

// TestFeatures checks the features of fake devices. The fake rxe has no windows.
func TestFeatures(t *testing.T) {
	rxe := verbs.Features{UC: true, UD: true, Immediate: true, Atomics: true}
	card := verbs.Features{UC: true, UD: true, XRC: true, Immediate: true, Atomics: true,
		MWType1: true, MWType2: true, LocalInv: true, SendInvMW: true, ReportsInv: true}
	for _, tc := range []struct {
		name string
		host *verbs.Host
		want verbs.Features
	}{
		{"rxe0", &verbs.Host{Kernel: uverbstest.New("rxe0"), Drivers: verbs.DefaultHost().Drivers}, rxe},
		{"mlx5_0", &verbs.Host{Kernel: inprocess.New(inprocess.Config{}, "mlx5_0"), Drivers: verbs.DefaultHost().Drivers}, card},
	} {
		dev := openDevice(t, tc.host, tc.name)
		if got := dev.Features(); got != tc.want {
			t.Errorf("Features of %s = %+v\nwant %+v", tc.name, got, tc.want)
		}
		if n := testing.AllocsPerRun(10, func() { dev.Features() }); n != 0 {
			t.Errorf("Features: %v allocations, want 0", n)
		}
	}
}
