// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"purerdma/internal/vmtest"
)

// runFaults runs destructive checks on a device that sends to itself.
func runFaults(t *testing.T, h vmtest.Host, only string) {
	t.Helper()
	status, r, _ := runReport(t, realProgram(), "-destructive", "-only", only, "-minutes", minutes, "-d", h.Device, "-a", h.IPv4.String())
	wantResults(t, here(t, "loopback"), only, status, r)
	for i := range r.Results {
		t.Logf("%s: %q", r.Results[i].ID, r.Results[i].Evidence)
	}
}

// TestVMFaults runs the destructive checks after which the network interface is the same.
func TestVMFaults(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, h := range hosts { // both ends of the wire lose their carrier
		h.KeepConfiguration(t)
	}
	runFaults(t, hosts[0], "memlock,cgroup-limit,health-recover,function-reset,link-down")
}

// TestVMReload runs the destructive checks after which a card has a new network interface.
func TestVMReload(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	hosts[1].KeepConfiguration(t)
	hosts[0].KeepInterface(t)
	runFaults(t, hosts[0], "devlink-reload,unbind")
}
