// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/verbs"
)

// TestBadAccess checks that each access right that lets peers change memory requires
// LocalWrite, because the device then writes to the memory. Each way of registering memory
// without it must be refused, and must leave the PD unchanged.
func TestBadAccess(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.a.Device)
		for name, access := range map[string]verbs.Access{
			"RemoteWrite":              verbs.RemoteWrite,
			"RemoteAtomic":             verbs.RemoteAtomic | verbs.RemoteRead,
			"RemoteWrite|RemoteAtomic": verbs.RemoteWrite | verbs.RemoteAtomic,
		} {
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatalf("Device.AllocPD: %v", err)
			}
			for what, err := range map[string]error{
				"Alloc":     second(pd.Alloc(4096, access)),
				"RegMR":     second(pd.RegMR(make([]byte, 4096), access)),
				"RegDMABuf": second(pd.RegDMABuf(0, 0, 4096, 0, access)),
			} {
				var op *verbs.OpError
				if !errors.As(err, &op) || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), name+" requires LocalWrite") {
					t.Errorf("%s with %v = %v, want EINVAL: %s requires LocalWrite", what, access, err, name)
				}
			}
			if err := pd.Close(); err != nil {
				t.Errorf("Close of a PD without memory: %v", err)
			}
		}
	})
}
