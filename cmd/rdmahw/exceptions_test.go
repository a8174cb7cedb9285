// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/internal/hwreport"
)

// place is a kind of run in the virtual machine.
type place struct {
	driver string
	kernel string // such as 6.12
	run    string // one of runs
}

// Values of the fields of a place.
var (
	drivers = []string{"rxe", "siw", "mlx5", "erdma", "bnxt_re"}
	kernels = []string{"6.1", "6.12", "7"}
	runs    = []string{
		"loopback", // TestVMRun, TestVMFaults, TestVMReload
		"peer",     // TestVMPeer, TestVMSilentPeer
		"user",     // TestVMUser
	}
)

// exception lists checks whose result is not PASS in some places. An empty list of drivers, kernels or runs means all.
type exception struct {
	checks  string // IDs, separated by spaces
	drivers string
	kernels string
	runs    string
	status  hwreport.Status
	reason  string // a part of the reason
}

// listed reports whether a list has a value, or is empty.
func listed(list, value string) bool {
	return list == "" || slices.Contains(strings.Fields(list), value)
}

// applies reports whether the exception is about a check in a place.
func (e *exception) applies(id string, p place) bool {
	return listed(e.checks, id) && listed(e.drivers, p.driver) && listed(e.kernels, p.kernel) && listed(e.runs, p.run)
}

// expected returns the exception for a check in a place, or nil if the check must pass.
func expected(id string, p place) *exception {
	for i := range exceptions {
		if exceptions[i].applies(id, p) {
			return &exceptions[i]
		}
	}
	return nil
}

// TestExceptions checks that the table names checks, drivers, kernels and runs that exist, and that no two exceptions are about
// the same check in the same place.
func TestExceptions(t *testing.T) {
	for i := range exceptions {
		e := &exceptions[i]
		for id := range strings.FieldsSeq(e.checks) {
			if _, ok := hwcheck.Find(id); !ok {
				t.Errorf("hwcheck.Find(%s) = false, want a check that exists in exception %d", id, i)
			}
		}
		for _, list := range []struct {
			have string
			all  []string
		}{{e.drivers, drivers}, {e.kernels, kernels}, {e.runs, runs}} {
			for value := range strings.FieldsSeq(list.have) {
				if !slices.Contains(list.all, value) {
					t.Errorf("exception %d (%s) has %s, want one of %q", i, e.checks, value, list.all)
				}
			}
		}
		if e.checks == "" || e.reason == "" || e.status != hwreport.Skip && e.status != hwreport.Unknown {
			t.Errorf("exception %d = %+v, want checks, SKIP or UNKNOWN, and a reason", i, *e)
		}
	}
	for _, c := range hwcheck.All() {
		for _, driver := range drivers {
			for _, kernel := range kernels {
				for _, run := range runs {
					p := place{driver, kernel, run}
					n := 0
					for i := range exceptions {
						if exceptions[i].applies(c.ID, p) {
							n++
						}
					}
					if n > 1 {
						t.Errorf("applies(%s, %+v) = true for %d exceptions, want at most 1", c.ID, p, n)
					}
				}
			}
		}
	}
}

// exceptions lists every result in the virtual machine that is not PASS.
var exceptions = []exception{
	{checks: "vectors data-in-completions no-data-in-completions wide-completions compressed timestamps doorbells-plain doorbells-unlocked doorbells-shared " +
		"wrap-recorded costs-plain costs-no-scatter dc dc-streams bad-opcode",
		drivers: "rxe siw erdma bnxt_re", status: hwreport.Skip, reason: "the device is no ConnectX"},
	{checks: "moderation", drivers: "rxe siw erdma bnxt_re", status: hwreport.Skip, reason: "the device does not moderate events"},
	{checks: "infiniband", status: hwreport.Skip, reason: "the port is not InfiniBand"},
	{checks: "numa", status: hwreport.Skip, reason: "the host has 1 NUMA nodes with processors"},
	{checks: "xrc", drivers: "rxe siw erdma bnxt_re", status: hwreport.Skip, reason: "the device has no XRC"},
	{checks: "ece", drivers: "rxe bnxt_re", status: hwreport.Skip, reason: "enhanced connection establishment: unsupported operation"},
	{checks: "on-demand", drivers: "siw mlx5 erdma bnxt_re", status: hwreport.Skip, reason: "the device has no on-demand paging for WRITE and READ"},
	{checks: "on-demand", drivers: "rxe", kernels: "6.1 6.12", status: hwreport.Skip, reason: "the device has no on-demand paging for WRITE and READ"},
	{checks: "on-demand", drivers: "rxe", kernels: "7", status: hwreport.Skip, reason: "rxe writes on-demand memory to the wrong place"},
	{checks: "raw-packets raw-receive", drivers: "rxe bnxt_re", runs: "loopback peer", status: hwreport.Skip, reason: "the user has no QPs of raw packets"},
	{checks: "raw-offloads", drivers: "rxe bnxt_re", runs: "loopback peer", status: hwreport.Skip, reason: "the device does not segment TCP"},
	// Debian's kernel 6.1 has no CONFIG_UDMABUF.
	{checks: "dma-buf", kernels: "6.1", status: hwreport.Skip, reason: "there is no dma-buf: open /dev/udmabuf: no such file or directory"},
	{checks: "dma-buf", drivers: "rxe siw erdma", kernels: "6.12 7", runs: "loopback peer", status: hwreport.Skip, reason: "the device does not register dma-bufs"},
	{checks: "dma-buf", kernels: "6.12 7", runs: "user", status: hwreport.Skip, reason: "there is no dma-buf: open /dev/udmabuf: permission denied"},
	{checks: "health", drivers: "rxe siw erdma", status: hwreport.Skip, reason: "the device is not a PCI device"},
	{checks: "health-recover devlink-reload function-reset unbind", drivers: "rxe siw erdma", runs: "loopback", status: hwreport.Skip, reason: "the device is not a PCI device"},
	{checks: "peer-silent", drivers: "siw erdma", runs: "peer", status: hwreport.Skip, reason: "TCP repeats for many minutes"},
	{checks: "dc-streams", drivers: "mlx5", status: hwreport.Skip, reason: "the device has no streams"},
	{checks: "compressed", drivers: "mlx5", status: hwreport.Skip, reason: "there is no CQ with compressed completions"},
	{checks: "drain", drivers: "mlx5", status: hwreport.Skip, reason: "the driver does not drain send queues"},
	{checks: "raw-packets raw-receive raw-offloads", drivers: "mlx5", runs: "loopback", status: hwreport.Unknown, // it does not return its own frames
		reason: "frames were received; a device or a switch may drop them"},
	{checks: "function-reset", drivers: "mlx5", runs: "loopback", status: hwreport.Skip, reason: "the device is no virtual function"},
	{checks: "health-recover", drivers: "mlx5 bnxt_re", runs: "loopback", status: hwreport.Skip, reason: "there is no reporter that can be tested"},

	{checks: "multicast", drivers: "bnxt_re", status: hwreport.Skip, reason: "the device has no multicast groups"},
	{checks: "overrun", drivers: "erdma", status: hwreport.Skip, reason: "erdma reports no overruns"},
	{checks: "srq srq-limit", drivers: "erdma", status: hwreport.Skip, reason: "the device has no shared receive queues"},
	{checks: "overrun", drivers: "bnxt_re", status: hwreport.Skip, reason: "bnxt_re reports no overruns"},
	{checks: "drain", drivers: "bnxt_re", status: hwreport.Skip, reason: "bnxt_re has no event of a drained queue"},
	{checks: "function-reset", drivers: "bnxt_re", runs: "loopback", status: hwreport.Skip, reason: "the device is no virtual function"},

	{checks: "cgroup-limit health-recover devlink-reload function-reset unbind link-down", runs: "user", status: hwreport.Skip, reason: "needs root"},
	{checks: "raw-packets raw-receive raw-offloads", drivers: "rxe mlx5 bnxt_re", runs: "user", status: hwreport.Skip, reason: "no socket for frames (CAP_NET_RAW)"},
	{checks: "network-namespace no-sysfs", runs: "user", status: hwreport.Skip, reason: "the user may not create namespaces (CAP_SYS_ADMIN)"},
	{checks: "peer-silent", runs: "user", status: hwreport.Skip, reason: "needs a peer"},

	{checks: "local-errors receive-errors rnr retries qp-rights drain reset old-keys rights", drivers: "siw erdma", status: hwreport.Skip, reason: "iWARP ends the connection instead"},
	{checks: "gids vlan raw-packets raw-receive raw-offloads", drivers: "siw erdma", status: hwreport.Skip, reason: "iWARP has no GIDs"},
	{checks: "atomics atomic-contention atomic-sides atomic-processor", drivers: "siw", status: hwreport.Skip, reason: "the device has no atomics"},
	{checks: "atomics atomic-contention atomic-sides atomic-processor", drivers: "erdma", kernels: "6.1", status: hwreport.Skip, reason: "the device has no atomics"},
	{checks: "datagrams answers multicast", drivers: "siw erdma", status: hwreport.Skip, reason: "the device has no datagrams"},
	{checks: "immediate", drivers: "siw", status: hwreport.Skip, reason: "the device has no immediate data"},
	{checks: "unreliable", drivers: "siw erdma bnxt_re", status: hwreport.Skip, reason: "the device has no unreliable connections"},
	{checks: "cq-resize", drivers: "siw erdma", status: hwreport.Skip, reason: "the device has no resizable CQs"},
	{checks: "window1", drivers: "siw erdma bnxt_re", status: hwreport.Skip, reason: "the device has no windows of type 1"},
	{checks: "window2", drivers: "siw erdma bnxt_re", status: hwreport.Skip, reason: "the device has no windows of type 2"},
	{checks: "send-invalidate", drivers: "siw erdma bnxt_re", status: hwreport.Skip, reason: "the device has no invalidation of windows by messages"},
	{checks: "solicited", drivers: "siw erdma", status: hwreport.Skip, reason: "iWARP devices may report every completion"},
	{checks: "events-channel", drivers: "siw erdma", status: hwreport.Skip, reason: "iWARP needs the connection manager"},
	{checks: "ece", drivers: "siw erdma", status: hwreport.Skip, reason: "iWARP has no enhanced connection establishment"},
}
