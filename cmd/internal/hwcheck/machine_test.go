// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"maps"
	"testing"
)

// TestParseFirmware parses the versions of a device, without its serial number.
func TestParseFirmware(t *testing.T) {
	got := parseFirmware([]byte(`{"info":{"pci/0000:3b:00.0":{"driver":"mlx5_core","serial_number":"MT1","versions":{"fixed":{"fw.psid":"MT_0000000012"},` +
		`"running":{"fw.version":"22.36.1010"}}}}}`))
	want := map[string]string{"devlink.driver": "mlx5_core", "devlink.fixed.fw.psid": "MT_0000000012", "devlink.running.fw.version": "22.36.1010"}
	if !maps.Equal(got, want) {
		t.Errorf("parseFirmware = %v, want %v", got, want)
	}
	if got := parseFirmware([]byte("kernel answers: Operation not supported")); got["devlink_error"] == "" {
		t.Errorf("parseFirmware(no JSON) = %v, want an error", got)
	}
}
