// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/abi"
)

// FuzzSysfs lists a device whose files in sysfs have arbitrary contents.
func FuzzSysfs(f *testing.F) {
	f.Add("rxe0\n", "2\n", "5054:00ff:fe12:3456\n", "1: CA\n", "")
	f.Add("mlx5_0\n", "1\n", "::::", "999: x", "../../bus/pci/drivers/mlx5_core")
	f.Add("../../x", "-1", "g", ":", "/")
	f.Add(" \n", "4294967296", "ffffffffffffffffffff", "-1:", "\xff")
	f.Add("a/b\x00c", "", "", "", "mlx5_core/")
	class := f.TempDir()
	verbs, ib := filepath.Join(class, "infiniband_verbs/uverbs0"), filepath.Join(class, "infiniband")
	if err := errors.Join(os.MkdirAll(verbs, 0o755), os.MkdirAll(ib, 0o755)); err != nil {
		f.Fatalf("os.MkdirAll: %v", err)
	}
	f.Fuzz(func(t *testing.T, name, version, guid, nodeType, driver string) {
		write := func(path, content string) {
			// The kernel never assigns a name that is invalid as a file name.
			_ = os.MkdirAll(filepath.Dir(path), 0o755)
			_ = os.WriteFile(path, []byte(content), 0o644)
		}
		device := filepath.Join(ib, "device of the fuzzer")
		if base := strings.TrimSpace(name); base != "" && base == filepath.Base(base) && base != "." && base != ".." {
			device = filepath.Join(ib, base)
		}
		defer os.RemoveAll(device)
		write(filepath.Join(verbs, "ibdev"), name)
		write(filepath.Join(verbs, "abi_version"), version)
		write(filepath.Join(device, "node_guid"), guid)
		write(filepath.Join(device, "node_type"), nodeType)
		if driver != "" {
			_ = os.MkdirAll(filepath.Join(device, "device"), 0o755)
			_ = os.Symlink(driver, filepath.Join(device, "device/driver"))
		}
		got, err := sysfsDevices(class)
		if err != nil {
			t.Fatalf("sysfsDevices: %v", err)
		}
		if want := strings.TrimSpace(name); want == "" && len(got) != 0 || want != "" && len(got) != 1 {
			t.Fatalf("sysfsDevices = %+v with a device named %q", got, name)
		} else if want == "" {
			return
		}
		d := got[0]
		if d.Name != strings.TrimSpace(name) || d.Index != -1 || d.Node != filepath.Join(nodeDir, "uverbs0") {
			t.Errorf("sysfsDevices = %+v with a device named %q", d, name)
		}
		switch d.DriverID {
		case abi.RDMA_DRIVER_UNKNOWN, abi.RDMA_DRIVER_MLX5, abi.RDMA_DRIVER_RXE, abi.RDMA_DRIVER_SIW:
		default:
			t.Errorf("DriverID = %v, want a known driver or RDMA_DRIVER_UNKNOWN", d.DriverID)
		}
	})
}
