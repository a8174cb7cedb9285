// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestNear runs a program on the processor of the device's node. The node of a host without another one is not used.
func TestNear(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatalf("unix.SchedGetaffinity: %v", err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	dir := t.TempDir()
	addNode := func(name string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatalf("os.Mkdir: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "cpulist"), fmt.Appendln(nil, cpu), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	processors := func(name string) (n int) {
		check := Check{ID: "near", do: func(tr *trial) {
			tr.near(dir, name)
			out, err := exec.Command("cat", "/proc/self/status").Output()
			tr.must("read the status of a program", err)
			cpus, err := parseCPUs(strings.TrimSpace(strings.TrimPrefix(lineWith(string(out), "Cpus_allowed_list:"), "Cpus_allowed_list:")))
			tr.must("parse the processors", err)
			n = len(cpus)
			tr.note("%v", cpus)
		}}
		if r := check.Run(t.Context(), broken(connectx.Defects{})); r.Status != hwreport.Pass {
			t.Errorf("Run(near) = %s: %s, want %s", r.Status, r.Reason, hwreport.Pass)
		}
		return n
	}
	addNode("node0")
	all := allowed.Count()
	if n := processors("node0"); n != all {
		t.Errorf("processors of a program on a host with one node = %d, want %d", n, all)
	}
	addNode("node1")
	for name, want := range map[string]int{"node0": 1, "node-1": all} {
		if n := processors(name); n != want {
			t.Errorf("processors of a program near %s = %d, want %d", name, n, want)
		}
	}
}
