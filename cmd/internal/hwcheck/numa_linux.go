// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// nodeChecks run on processors that are far from the device.
var nodeChecks = []Check{
	{ID: "numa", Local: true, Title: "completions and data polled on other NUMA nodes than the device's", needs: needsNodes, do: checkNodes},
}

// node is a NUMA node.
type node struct {
	name string // such as node1
	cpus []int
}

// nodes returns the nodes in a directory of sysfs that have processors.
func nodes(dir string) ([]node, error) {
	files, err := filepath.Glob(filepath.Join(dir, "node[0-9]*", "cpulist"))
	if err != nil {
		return nil, err
	}
	var list []node
	for _, file := range files {
		cpus, err := parseCPUs(line(file))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(cpus) > 0 {
			list = append(list, node{filepath.Base(filepath.Dir(file)), cpus})
		}
	}
	return list, nil
}

// maxCPU is the highest processor that an affinity mask of package unix has.
const maxCPU = 1023

// parseCPUs parses a list of processors such as "0-3,8".
func parseCPUs(text string) ([]int, error) {
	var cpus []int
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil || first < 0 || last < first || last > maxCPU {
			return nil, fmt.Errorf("list of processors %q", text)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// nodesDir has the NUMA nodes.
const nodesDir = "/sys/devices/system/node"

func needsNodes(t *trial) string {
	list, err := nodes(nodesDir)
	switch {
	case err != nil:
		return err.Error()
	case len(list) < 2:
		return fmt.Sprintf("the host has %d NUMA nodes with processors", len(list))
	}
	return ""
}

// deviceNode returns the name of the device's node, or node-1 if the kernel does not know it.
func (t *trial) deviceNode() string {
	return "node" + line("/sys/class/infiniband", t.target.Device, "device", "numa_node")
}

func checkNodes(t *trial) {
	list, err := nodes(nodesDir)
	t.must("list the NUMA nodes", err)
	own := t.deviceNode()
	t.note("the device is on %s", own)
	for _, n := range list {
		if n.name != own {
			t.onNode(n)
		}
	}
}

// onNode moves data while all threads of this process run on a node. The memory is used before, so it is on another node.
func (t *trial) onNode(n node) {
	s := Stream{Count: t.reads(2000), Min: 1, Span: 4000, Elements: 2, Depth: 64, Reads: true}
	l := t.link(s.config())
	clear(l.mr.Bytes())
	t.must("run on "+n.name, t.pinTo(n))
	l.stream(s, nil)
	t.note("%s, %d processors: data compared", n.name, len(n.cpus))
}

// nearDevice runs all threads of this process on the node of the device until the end of the check, and so do the programs that it
// starts. It does nothing on a host with one node.
func (t *trial) nearDevice() { t.near(nodesDir, t.deviceNode()) }

// near runs all threads of this process on a node of a directory of sysfs, if the directory has several nodes.
func (t *trial) near(dir, name string) {
	list, err := nodes(dir)
	i := slices.IndexFunc(list, func(n node) bool { return n.name == name })
	if err != nil || len(list) < 2 || i < 0 {
		return
	}
	if err := t.pinTo(list[i]); err != nil {
		t.note("not on %s of the device: %v", name, err) // a control group may forbid it
		return
	}
	t.note("on %s of the device, %d processors", name, len(list[i].cpus))
}

// pinTo runs all threads of this process on a node until the end of the check.
func (t *trial) pinTo(n node) error {
	var old, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return err
	}
	for _, cpu := range n.cpus {
		set.Set(cpu)
	}
	t.later(func() error { return pin(&old) })
	return pin(&set)
}

// pin runs all threads of this process on some processors. Threads that are created later inherit that.
func pin(set *unix.CPUSet) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
