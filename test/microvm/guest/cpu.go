// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// processors is the directory of sysfs with the machine's processors.
const processors = "/sys/devices/system/cpu"

// startProcessors starts the processors in dir that the kernel has not started at boot. Package
// qemu documents the reason. Only processors that can be removed have the file. The first has
// none.
func startProcessors(dir string) error {
	files, _ := filepath.Glob(dir + "/cpu[0-9]*/online")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && string(bytes.TrimSpace(b)) == "0" {
			err = os.WriteFile(f, []byte("1"), 0)
		}
		if err != nil {
			return fmt.Errorf("start a processor: %w", err)
		}
	}
	return nil
}
