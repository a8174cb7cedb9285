// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestKernelLine parses records of /dev/kmsg and chooses lines.
func TestKernelLine(t *testing.T) {
	for _, tc := range []struct {
		record, line string
		want         bool
	}{
		{"3,1234,99881122,-;mlx5_core 0000:3b:00.0: cmd_work_handler: timeout\n SUBSYSTEM=pci\n", "99881122 mlx5_core 0000:3b:00.0: cmd_work_handler: timeout", true},
		{"6,1235,5,-;usb 1-1: new device\n", "5 usb 1-1: new device", false},
		{"4,1236,6,-;device rocep0 is gone\n", "6 device rocep0 is gone", true},
		{"no header", "", false},
	} {
		line := kernelLine(tc.record)
		if got := concerns(line, "rocep0"); line != tc.line || got != tc.want {
			t.Errorf("kernelLine(%q) = %q, concerns %v, want %q, %v", tc.record, line, got, tc.line, tc.want)
		}
	}
}
