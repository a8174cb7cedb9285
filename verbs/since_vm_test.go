// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"fmt"
	"os"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// linuxSince reports whether the release of Linux is at least major.minor.
func linuxSince(t *testing.T, major, minor int) bool {
	t.Helper()
	var ma, mi int
	if _, err := fmt.Sscanf(os.Getenv("RDMAVM_KERNEL_RELEASE"), "%d.%d", &ma, &mi); err != nil {
		t.Fatalf("kernel release %q: %v", os.Getenv("RDMAVM_KERNEL_RELEASE"), err)
	}
	return ma > major || ma == major && mi >= minor
}

// feature is a feature that not every driver, or not every release of Linux, supports.
type feature int

const (
	flushing feature = iota
	atomicWriting
	reregistering
	onDemandMemory
)

// expects reports whether the devices have a feature. Tests use this function and not the
// capabilities that the devices report. If the library read the capabilities wrongly, such
// tests would skip the feature.
func expects(t *testing.T, f feature) bool {
	t.Helper()
	switch vmtest.Driver() {
	case "rxe":
		if f == onDemandMemory {
			return linuxSince(t, 7, 0)
		}
		return linuxSince(t, 6, 12)
	case "siw", "erdma", "bnxt_re":
		return false
	}
	return f == reregistering // cards, also without a VM
}

// TestVMCapabilities compares the capabilities that a device reports with the expected ones.
func TestVMCapabilities(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	vmtest.NoLeaks(t)
	dev := openDevice(t, verbs.DefaultHost(), host.Device)
	odp := dev.Attr().ODP
	for what, c := range map[string]struct{ has, want bool }{
		"on-demand memory":         {odp.Supported && odp.RC&verbs.ODPWrite != 0, expects(t, onDemandMemory)},
		"on-demand memory with UD": {odp.Supported && odp.UD&verbs.ODPSend != 0, expects(t, onDemandMemory)},
	} {
		if c.has != c.want {
			t.Errorf("%s on Linux %s: %s = %v, want %v", vmtest.Driver(), os.Getenv("RDMAVM_KERNEL_RELEASE"), what, c.has, c.want)
		}
	}
}
