// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"sync"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// replug plugs a removed device in again, and waits until it can be used. removed is the last
// opened device.
func replug(t *testing.T, h *verbs.Host, host vmtest.Host, removed *verbs.Device) {
	t.Helper()
	host.Plug(t)
	// The GID of the address appears a moment after the device.
	var err error
	for range 100 {
		var dev *verbs.Device
		if dev, err = h.Open(host.Device); err == nil {
			if dev.Same(removed) {
				t.Error("Open returned the removed device")
			}
			if gids, _ := dev.GIDs(); len(gids) > 1 || vmtest.IWARP() && len(gids) > 0 {
				dev.Close()
				return
			}
			dev.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("the device cannot be opened again: %v", err)
}

// TestVMCallsDuringRemoval repeats calls of each kind until the device is removed. The first
// call of a kind that fails must report the removal. The kernel returns EIO until the library
// has received an event. siw, rxe up to Linux 7.2, and erdma up to Linux 6.11 delay the removal
// until the device is closed, and fail no call.
func TestVMCallsDuringRemoval(t *testing.T) {
	host := vmtest.Hosts(t, 2)[1]
	h := verbs.DefaultHost()
	dev, pd := openPD(t, h, host.Device)
	closing := func(c interface{ Close() error }, err error) error {
		if err == nil {
			c.Close()
		}
		return err
	}
	var succeeded, ended sync.WaitGroup
	for name, call := range map[string]func() error{
		"PD.Alloc":        func() error { mr, err := pd.Alloc(4096, verbs.LocalWrite); return closing(mr, err) },
		"PD.CreateQP":     func() error { qp, err := pd.CreateQP(verbs.QPConfig{}); return closing(qp, err) },
		"Device.AllocPD":  func() error { pd, err := dev.AllocPD(); return closing(pd, err) },
		"Device.CreateCQ": func() error { cq, err := dev.CreateCQ(verbs.CQConfig{}); return closing(cq, err) },
	} {
		for range 4 {
			succeeded.Add(1)
			ended.Go(func() {
				err := call()
				succeeded.Done()
				for err == nil {
					err = call()
				}
				if !isRemoved(err) {
					t.Errorf("%s during the removal = %v, want a DeviceRemovedError", name, err)
				}
			})
		}
	}
	succeeded.Wait()
	unplugged := make(chan error, 1)
	go func() { unplugged <- host.Unplug() }()
	switch driver := vmtest.Driver(); {
	case driver == "siw", driver == "rxe" && !linuxSince(t, 7, 3), driver == "erdma" && !linuxSince(t, 6, 12): // which wait for the program
		internals.MarkRemoved(dev)
	}
	ended.Wait()
	if err := <-unplugged; err != nil {
		t.Errorf("unplug %s: %v", host.Device, err)
	}
	replug(t, h, host, dev)
}
