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

// TestBadAccess: who lets peers change memory lets the device write to it. Memory
// without that is refused in each way that there is to name it, and the PD is left as it was.
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
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"Alloc":     second(pd.Alloc(4096, access)),
				"RegMR":     second(pd.RegMR(make([]byte, 4096), access)),
				"RegDMABuf": second(pd.RegDMABuf(0, 0, 4096, 0, access)),
			} {
				var op *verbs.OpError
				if !errors.As(err, &op) || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), name+" requires LocalWrite") {
					t.Errorf("%s with %v: %v", what, access, err)
				}
			}
			if err := pd.Close(); err != nil {
				t.Errorf("Close of a PD that has no memory: %v", err)
			}
		}
	})
}
