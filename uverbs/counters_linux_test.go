// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestPortCounters(t *testing.T) {
	class := t.TempDir()
	port := filepath.Join(class, "infiniband", "mlx5_0", "ports", "1")
	for name, text := range map[string]string{
		"counters/port_rcv_data":       "12\n",
		"counters/port_xmit_wait":      "N/A (no PMA)\n",
		"hw_counters/out_of_buffer":    "18446744073709551615\n",
		"hw_counters/lifespan":         "10\n",
		"gid_attrs/types/not_a_number": "3\n",
	} {
		name = filepath.Join(port, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	want := map[string]uint64{"port_rcv_data": 12, "out_of_buffer": 1<<64 - 1}
	if got, err := portCounters(class, "mlx5_0", 1); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("portCounters = %v, %v, want %v, nil", got, err, want)
	}
	if got, err := portCounters(class, "mlx5_0", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("portCounters of a missing port = %v, %v, want ErrNotExist", got, err)
	}
}
