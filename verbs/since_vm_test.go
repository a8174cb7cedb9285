// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"purerdma/abi"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// linuxSince says whether the release of Linux is at least that.
func linuxSince(t *testing.T, major, minor int) bool {
	t.Helper()
	var ma, mi int
	if _, err := fmt.Sscanf(os.Getenv("RDMAVM_KERNEL_RELEASE"), "%d.%d", &ma, &mi); err != nil {
		t.Fatalf("release %q: %v", os.Getenv("RDMAVM_KERNEL_RELEASE"), err)
	}
	return ma > major || ma == major && mi >= minor
}

// TestVMSinceWhen holds what a device says that it can do against the release of
// Linux. Other tests go by what it says, and would find nothing to do if the library
// read that wrong.
func TestVMSinceWhen(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	vmtest.NoLeaks(t)
	since := func(major, minor int) bool { return vmtest.Driver() == "rxe" && linuxSince(t, major, minor) }
	dev, pd := openPD(t, verbs.DefaultHost(), host.Device)
	mr, err := pd.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	closer(t, mr)
	rights := verbs.LocalWrite | verbs.RemoteWrite
	rereg := mr.Reregister(verbs.MRChange{Access: &rights})
	if rereg != nil && !errors.Is(rereg, errors.ErrUnsupported) {
		t.Errorf("Reregister: %v", rereg)
	}
	caps, odp := dev.Attr().CapFlags, dev.Attr().ODP
	for what, c := range map[string]struct{ has, want bool }{
		"FLUSH":            {caps&abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL != 0, since(6, 12)},
		"ATOMIC_WRITE":     {caps&abi.IB_UVERBS_DEVICE_ATOMIC_WRITE != 0, since(6, 12)},
		"Reregister":       {rereg == nil, since(6, 12)},
		"on-demand memory": {odp.Supported && odp.RC&verbs.ODPWrite != 0, since(7, 0)},
	} {
		if c.has != c.want {
			t.Errorf("%s on %s: %s: %v, want %v", vmtest.Driver(), os.Getenv("RDMAVM_KERNEL_RELEASE"), what, c.has, c.want)
		}
	}
}
