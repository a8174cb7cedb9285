// SPDX-License-Identifier: Apache-2.0

package hwcheck

import "testing"

// TestPCIControl decodes configuration spaces.
func TestPCIControl(t *testing.T) {
	config := make([]byte, 256)
	config[0x34], config[0x40], config[0x41] = 0x40, 0x01, 0x60 // power management, then PCI Express
	config[0x60], config[0x68], config[0x69] = 0x10, 0x30, 0x50
	loop := make([]byte, 256)
	loop[0x34], loop[0x40], loop[0x41] = 0x40, 0x05, 0x40
	for _, tc := range []struct {
		config []byte
		want   string
	}{
		{config, "max payload 256, max read request 4096, relaxed ordering true"},
		{config[:64], ""}, {nil, ""}, {make([]byte, 256), ""}, {loop, ""},
	} {
		if got := pciControl(tc.config); got != tc.want {
			t.Errorf("pciControl(%d bytes) = %q, want %q", len(tc.config), got, tc.want)
		}
	}
}
