// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// TestOpenOldKernel opens a device on kernels without one of the commands. The error must name
// the command and the required kernel, and no context may remain.
func TestOpenOldKernel(t *testing.T) {
	for _, tc := range []struct {
		method uint16
		errno  syscall.Errno
		want   string
	}{
		{abi.UVERBS_METHOD_GET_CONTEXT, syscall.EPROTONOSUPPORT, "GET_CONTEXT"},
		{abi.UVERBS_METHOD_GET_CONTEXT, syscall.ENOTTY, "GET_CONTEXT"},
		{abi.UVERBS_METHOD_QUERY_GID_ENTRY, syscall.EPROTONOSUPPORT, "QUERY_GID_ENTRY"},
	} {
		rt := fakeRoute()
		rt.fake.Intercept = func(r *uverbs.Request) error {
			if r.Object == abi.UVERBS_OBJECT_DEVICE && r.Method == tc.method {
				return tc.errno
			}
			return nil
		}
		_, err := rt.h.Open("rxe0")
		var old *verbs.OldKernelError
		if !errors.As(err, &old) || !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, tc.errno) || old.Device != "rxe0" {
			t.Fatalf("Open on a kernel whose %s returns %v = %v, want an OldKernelError", tc.want, tc.errno, err)
		}
		for _, want := range []string{tc.want, "Linux " + verbs.MinKernel + " or newer"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Open = %q, want %q in it", err, want)
			}
		}
		if n := rt.fake.Opened(); n != 0 {
			t.Errorf("Opened() = %d, want 0", n)
		}
	}
	// A command that only this device or port does not support is not a sign of an old kernel.
	rt := fakeRoute()
	rt.fake.Intercept = func(r *uverbs.Request) error {
		if r.Object == abi.UVERBS_OBJECT_DEVICE && r.Method == abi.UVERBS_METHOD_QUERY_GID_ENTRY {
			return syscall.EOPNOTSUPP
		}
		return nil
	}
	dev, err := rt.h.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	dev.Close()
}

// TestOpenPortFails opens a device whose port cannot be queried. It reads the link layer of the
// port while the query fails, and later when it succeeds.
func TestOpenPortFails(t *testing.T) {
	rt := fakeRoute()
	failing := true
	rt.fake.Intercept = func(r *uverbs.Request) error {
		if failing && r.Object == abi.UVERBS_OBJECT_DEVICE && r.Method == abi.UVERBS_METHOD_QUERY_PORT {
			return syscall.EIO
		}
		return nil
	}
	dev, err := rt.h.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	defer dev.Close()
	if l := dev.LinkLayer(1); l != verbs.LinkUnspecified {
		t.Errorf("LinkLayer(1) = %v, want %v", l, verbs.LinkUnspecified)
	}
	if _, err := dev.QueryPort(1); !errors.Is(err, syscall.EIO) {
		t.Errorf("QueryPort(1) = %v, want EIO", err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("Device.AllocPD: %v", err)
	}
	pd.Close()
	failing = false
	if l := dev.LinkLayer(1); l != verbs.LinkEthernet {
		t.Errorf("LinkLayer(1) = %v when the port can be queried, want %v", l, verbs.LinkEthernet)
	}
	if l := dev.LinkLayer(2); l != verbs.LinkUnspecified {
		t.Errorf("LinkLayer(2) = %v, want %v", l, verbs.LinkUnspecified)
	}
}
