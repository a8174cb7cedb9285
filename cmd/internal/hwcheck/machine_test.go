// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"purerdma/internal/hwreport"
	"purerdma/verbs"
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

// TestFacts reads files about processors of both architectures.
func TestFacts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		return name
	}
	intel := write("amd64", "processor\t: 0\nmodel name\t: Xeon  8\nflags\t\t: fpu pat sse\n\nprocessor\t: 1\n")
	arm := write("arm64", "processor\t: 0\nFeatures\t: fp pat\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n")
	for file, want := range map[string]string{intel: "model name : Xeon 8", arm: "CPU implementer : 0x41, CPU part : 0xd0c", dir + "/none": ""} {
		if got := fact("cpu", file); got != want {
			t.Errorf("fact(cpu, %s) = %q, want %q", file, got, want)
		}
	}
	if got := writeCombining(arm, dir); got != "" {
		t.Errorf("writeCombining(arm64) without files = %q, want nothing", got)
	}
	write("resource0", "")
	write("resource0_wc", "")
	for file, want := range map[string]string{intel: "pat, resource0_wc", arm: "resource0_wc"} {
		if got := writeCombining(file, dir); got != want {
			t.Errorf("writeCombining(%s) = %q, want %q", file, got, want)
		}
	}
}

// TestKindOf checks that a model is never called a card, even if the host hides what distinguishes them.
func TestKindOf(t *testing.T) {
	model, card := &verbs.DeviceAttr{FWVersion: modelFirmware}, &verbs.DeviceAttr{FWVersion: 0x1_0000}
	for _, tc := range []struct {
		driver, board string
		fake          bool
		attr          *verbs.DeviceAttr
		want          hwreport.Kind
	}{
		{"rxe", "", false, card, hwreport.Software}, {"siw", "", false, nil, hwreport.Software},
		{"mlx5", modelBoard, false, card, hwreport.Model}, {"mlx5", modelBoard, false, nil, hwreport.Model}, {"mlx5", "", true, card, hwreport.Model},
		{"mlx5", "MT_0000000012", false, card, hwreport.Card}, {"mlx5", "MT_0000000012", false, nil, hwreport.Card},
		{"mlx5", "", false, card, hwreport.Unclear},
		{"erdma", "", false, model, hwreport.Model}, {"erdma", "", false, card, hwreport.Card}, {"erdma", "", false, nil, hwreport.Unclear},
		{"irdma", "", false, nil, hwreport.Card}, {"", "", false, nil, hwreport.Unclear},
	} {
		if got := kindOf(&hwreport.Machine{Driver: tc.driver, Board: tc.board}, tc.fake, tc.attr); got != tc.want {
			t.Errorf("kindOf(%q, %q, %v, %+v) = %s, want %s", tc.driver, tc.board, tc.fake, tc.attr, got, tc.want)
		}
	}
}
