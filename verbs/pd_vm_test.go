// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"net"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMPD creates many PDs, closes each of them twice, and uses a closed one.
func TestVMPD(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	vmtest.NoLeaks(t)
	dev := openDevice(t, verbs.DefaultHost(), host.Device)
	var pds []*verbs.PD
	for range 200 {
		pd, err := dev.AllocPD()
		if err != nil {
			t.Fatalf("Device.AllocPD: %v", err)
		}
		pds = append(pds, pd)
	}
	for _, pd := range pds {
		for range 2 {
			if err := pd.Close(); err != nil {
				t.Fatalf("PD.Close: %v", err)
			}
		}
		if _, err := pd.Alloc(100, verbs.LocalWrite); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("Alloc on a closed PD = %v, want net.ErrClosed", err)
		}
	}
}
