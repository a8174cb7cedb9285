// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purerdma/abi"
)

func TestSysfsDevices(t *testing.T) {
	class := t.TempDir()
	for path, content := range map[string]string{
		"infiniband_verbs/abi_version":         "6\n",
		"infiniband_verbs/uverbs1/ibdev":       "rxe0\n",
		"infiniband_verbs/uverbs1/abi_version": "2\n",
		"infiniband/rxe0/node_guid":            "5054:00ff:fe12:3456\n",
		"infiniband/rxe0/node_type":            "1: CA\n",
		"infiniband_verbs/uverbs0/ibdev":       "siw0\n",
		"infiniband_verbs/uverbs0/abi_version": "1\n",
		"infiniband/siw0/node_guid":            "0000:0000:0000:0001\n",
		"infiniband/siw0/node_type":            "4: RNIC\n",
		// Cards with arbitrary names.
		"infiniband_verbs/uverbs2/ibdev":       "rocep1s0\n",
		"infiniband_verbs/uverbs2/abi_version": "1\n",
		"infiniband_verbs/uverbs3/ibdev":       "rxe9\n",
		"infiniband_verbs/uverbs4/ibdev":       "erdma_0\n",
		"infiniband_verbs/uverbs5/ibdev":       "rocep2s0\n",
	} {
		path = filepath.Join(class, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	for name, driver := range map[string]string{"rocep1s0": "mlx5_core", "rocep2s0": "bnxt_en", "rxe9": "some_core"} {
		dir := filepath.Join(class, "infiniband", name, "device")
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.Symlink("../../bus/pci/drivers/"+driver, filepath.Join(dir, "driver"))); err != nil {
			t.Fatalf("creating the link %s/driver: %v", dir, err)
		}
	}
	got, err := sysfsDevices(class)
	if err != nil {
		t.Fatalf("sysfsDevices: %v", err)
	}
	want := []DeviceInfo{
		{Name: "erdma_0", Index: -1, Node: "/dev/infiniband/uverbs4", DriverID: abi.RDMA_DRIVER_ERDMA},
		{Name: "rocep1s0", Index: -1, Node: "/dev/infiniband/uverbs2", DriverID: abi.RDMA_DRIVER_MLX5, ABIVersion: 1},
		{Name: "rocep2s0", Index: -1, Node: "/dev/infiniband/uverbs5", DriverID: abi.RDMA_DRIVER_BNXT_RE},
		{Name: "rxe0", Index: -1, Node: "/dev/infiniband/uverbs1", DriverID: abi.RDMA_DRIVER_RXE, ABIVersion: 2, NodeGUID: 0x505400fffe123456, NodeType: NodeCA},
		{Name: "rxe9", Index: -1, Node: "/dev/infiniband/uverbs3"},
		{Name: "siw0", Index: -1, Node: "/dev/infiniband/uverbs0", DriverID: abi.RDMA_DRIVER_SIW, ABIVersion: 1, NodeGUID: 1, NodeType: NodeRNIC},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sysfsDevices (-want +got):\n%s", diff)
	}
	d := DeviceInfo{Name: "siw0", Index: 4, NodeType: NodeRNIC}
	d.fromSysfs(class)
	if diff := cmp.Diff(DeviceInfo{Name: "siw0", Index: 4, Node: "/dev/infiniband/uverbs0", DriverID: abi.RDMA_DRIVER_SIW, ABIVersion: 1, NodeType: NodeRNIC}, d); diff != "" {
		t.Errorf("fromSysfs (-want +got):\n%s", diff)
	}
	if got, err := sysfsDevices(filepath.Join(class, "none")); len(got) != 0 || err != nil {
		t.Errorf("sysfsDevices without ib_uverbs = %v, %v, want none, nil", got, err)
	}
}
