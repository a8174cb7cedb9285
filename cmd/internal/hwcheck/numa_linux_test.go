// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"purerdma/internal/hwreport"
	"purerdma/test/connectx"
)

// TestParseCPUs parses lists of processors.
func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]string{"": "[]", "0": "[0]", "0-2,8": "[0 1 2 8]", "3-1": "error", "x": "error", "0-99999999": "error", "-1": "error"} {
		cpus, err := parseCPUs(text)
		got := fmt.Sprint(cpus)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("parseCPUs(%q) = %v, %v, want %s", text, cpus, err, want)
		}
	}
}

// TestNodes reads nodes, one of them without processors.
func TestNodes(t *testing.T) {
	dir := t.TempDir()
	for name, cpus := range map[string]string{"node0": "0-1\n", "node1": "\n", "node2": "2\n"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatalf("os.Mkdir: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "cpulist"), []byte(cpus), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	list, err := nodes(dir)
	if got := fmt.Sprint(list); err != nil || got != "[{node0 [0 1]} {node2 [2]}]" {
		t.Errorf("nodes = %s, %v, want node0 and node2", got, err)
	}
}

// TestOnNode moves data on one processor, with and without a defect.
func TestOnNode(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatalf("unix.SchedGetaffinity: %v", err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	check := Check{ID: "numa", do: func(tr *trial) { tr.onNode(node{"node0", []int{cpu}}) }}
	if r := check.Run(t.Context(), broken(connectx.Defects{})); r.Status != hwreport.Pass {
		t.Errorf("Run(numa) = %s: %s, want %s", r.Status, r.Reason, hwreport.Pass)
	}
	if r := check.Run(t.Context(), broken(connectx.Defects{SwappedCounters: true})); r.Status != hwreport.Fail {
		t.Errorf("Run(numa) with swapped counters = %s: %s, want %s", r.Status, r.Reason, hwreport.Fail)
	}
	var after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != allowed {
		t.Errorf("unix.SchedGetaffinity = %v, %v, want %v again", after.Count(), err, allowed.Count())
	}
}
