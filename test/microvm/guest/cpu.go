// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// processors is where sysfs has the machine's processors.
const processors = "/sys/devices/system/cpu"

// startProcessors starts those in dir that the kernel was told to leave alone while it
// boots: package qemu says why. Only those that can be taken away have the file: the
// first has none.
func startProcessors(dir string) error {
	files, _ := filepath.Glob(dir + "/cpu[0-9]*/online")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && string(bytes.TrimSpace(b)) == "0" {
			err = os.WriteFile(f, []byte("1"), 0)
		}
		if err != nil {
			return fmt.Errorf("starting a processor: %w", err)
		}
	}
	return nil
}
