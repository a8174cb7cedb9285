// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"testing"

	"purerdma/provider"
)

// TestFeatures checks the features that the provider derives from the kernels' responses to
// QUERY_DEVICE_EX.
func TestFeatures(t *testing.T) {
	old := provider.Features{UC: true, Immediate: true, Atomics: true}
	windows := old
	windows.UD, windows.MWType1, windows.MWType2 = true, true, true
	windows.LocalInv, windows.SendInvMW, windows.ReportsInv = true, true, true
	flush := windows
	flush.FlushGlobal, flush.FlushPersistent, flush.AtomicWrite = true, true, true
	for kernel, tc := range map[string]struct {
		c    *Context
		want provider.Features
	}{
		"no extended query": {&Context{}, old},
		"5.10":              {&Context{caps: 0x2000203c76, maxAH: 100}, old},
		"6.1":               {&Context{caps: 0x1223c76, maxAH: 32767}, windows},
		"6.12":              {&Context{caps: 0x1c001223c76, maxAH: 32767}, flush},
	} {
		if got := tc.c.Features(); got != tc.want {
			t.Errorf("Linux %s: Features() = %+v, want %+v", kernel, got, tc.want)
		}
	}
}
