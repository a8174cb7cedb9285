// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// processors is where sysfs has the machine's processors. Only those that can be
// taken away have the file: the first has none.
const processors = "/sys/devices/system/cpu/cpu[0-9]*/online"

// startProcessors starts those that the kernel was told to leave alone while it
// boots: package qemu says why.
func startProcessors() error {
	files, _ := filepath.Glob(processors)
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || string(bytes.TrimSpace(b)) != "0" {
			continue
		}
		if err := os.WriteFile(f, []byte("1"), 0); err != nil {
			return fmt.Errorf("starting a processor: %w", err)
		}
	}
	return nil
}
