// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/internal/hwreport"
	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// wantPassed checks that every check that can run on the device has passed, and the kind of the device.
func wantPassed(t *testing.T, status int, r *hwreport.Report) {
	t.Helper()
	for i := range r.Results {
		result := &r.Results[i]
		if strings.HasPrefix(result.ID, "raw-") && r.Peer == "loopback" && result.Status == hwreport.Unknown {
			continue // a device need not return its own frames
		}
		if result.Status != hwreport.Pass && result.Status != hwreport.Skip {
			t.Errorf("run() = %s: %v", strings.TrimSpace(result.Line()), result.Evidence)
		}
	}
	least := len(r.Results) / 2
	if vmtest.IWARP() {
		least = len(r.Results) / 3 // it has no atomics, windows, datagrams and GIDs
	}
	if status != 0 || r.Count(hwreport.Pass) < least {
		t.Errorf("run() = %d with %s, want 0 and at least %d checks passed", status, r.Summary(), least)
	}
	want := hwreport.Software
	if driver := vmtest.Driver(); driver == "mlx5" || driver == "erdma" {
		want = hwreport.Model
	}
	if r.Machine.Kind != want || r.Machine.Driver != vmtest.Driver() {
		t.Errorf("run() reports a %s with driver %s, want a %s with driver %s", r.Machine.Kind, r.Machine.Driver, want, vmtest.Driver())
	}
}

// tooLong lists the checks that only the long tests run. They move much data, or repeat other checks, and each takes up
// to a minute on a busy machine.
var tooLong = map[string]bool{
	"wrap": true, "wrap-recorded": true, "storm": true, "completion-data": true, "short-data": true, "doorbells-plain": true, "doorbells-unlocked": true, "doorbells-storm": true, "doorbells-shared": true,
	"many-qps": true, "destroy": true, "churn": true, "costs": true, "costs-plain": true, "costs-no-scatter": true,
}

// ids returns the list of the checks of a run. With a peer it has no checks that have both ends on this host. A software ConnectX
// reports bad-opcode as a violation by the driver, which fails the run of the virtual machine.
func ids(peer bool) string {
	var list []string
	for _, c := range hwcheck.All() {
		if c.Destructive || tooLong[c.ID] && !longtest.Enabled() || peer && c.Local || c.ID == "bad-opcode" {
			continue
		}
		list = append(list, c.ID)
	}
	return strings.Join(list, ",")
}

// TestVMRun runs the checks on a device that sends to itself.
func TestVMRun(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	status, r, _ := runReport(t, testProgram("real"), "-only", ids(false), "-d", h.Device, "-a", h.IPv4.String())
	wantPassed(t, status, r)
	if r.Peer != "loopback" {
		t.Errorf("run() reports the peer %q, want loopback", r.Peer)
	}
}

// harmless lists the destructive checks after which other tests can use the device. The other ones remove its addresses.
const harmless = "cgroup-limit,health-recover,memlock"

// TestVMSilentPeer runs the check whose peer sets its network interface down.
func TestVMSilentPeer(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, h := range hosts {
		h.KeepConfiguration(t)
	}
	status, r, _ := withPeer(t, &hwcheck.Target{Host: verbs.DefaultHost(), Device: hosts[1].Device, Port: 1, Addr: hosts[1].IPv4, Destructive: true},
		"-destructive", "-only", "peer-silent", "-d", hosts[0].Device, "-a", hosts[0].IPv4.String())
	want := hwreport.Pass
	if vmtest.IWARP() {
		want = hwreport.Skip
	}
	if result := &r.Results[0]; status != 0 || result.Status != want {
		t.Errorf("run(-only peer-silent) = %d, %s: %q, want 0, %s", status, strings.TrimSpace(result.Line()), result.Evidence, want)
	}
}

// withPeer runs the program with a server for a target in this process.
func withPeer(t *testing.T, far *hwcheck.Target, args ...string) (int, *hwreport.Report, map[string]string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- hwcheck.Serve(ctx, ln, far) }()
	status, r, files := runReport(t, testProgram("real"), append(args, "-peer", ln.Addr().String())...)
	cancel()
	if err := <-served; err != nil {
		t.Errorf("hwcheck.Serve: %v", err)
	}
	return status, r, files
}

// TestVMFaults runs destructive checks. Every kernel has control groups with the controller rdma.
func TestVMFaults(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	status, r, _ := runReport(t, testProgram("real"), "-destructive", "-only", harmless, "-d", h.Device, "-a", h.IPv4.String())
	for i := range r.Results {
		result := &r.Results[i]
		want := hwreport.Pass
		if result.ID == "health-recover" {
			want = hwreport.Skip // rxe, siw and erdma have no reporters, and mlx5_core has none that can be tested
		}
		if result.Status != want {
			t.Errorf("run(-destructive) = %s: %q, want %s", strings.TrimSpace(result.Line()), result.Evidence, want)
		}
		t.Logf("%s: %q", result.ID, result.Evidence)
	}
	if status != 0 {
		t.Errorf("run(-destructive) = %d, want 0", status)
	}
}

// TestVMPeer runs the checks between two devices.
func TestVMPeer(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	status, r, _ := withPeer(t, &hwcheck.Target{Host: verbs.DefaultHost(), Device: hosts[1].Device, Port: 1, Addr: hosts[1].IPv4},
		"-only", ids(true), "-d", hosts[0].Device, "-a", hosts[0].IPv4.String())
	wantPassed(t, status, r)
	if r.Peer != "another host" {
		t.Errorf("run() reports the peer %q, want another host", r.Peer)
	}
}

// TestVMSoak repeats checks twice.
func TestVMSoak(t *testing.T) {
	longtest.Need(t)
	h := vmtest.Hosts(t, 1)[0]
	status, r, _ := runReport(t, testProgram("real"), "-soak", "1s", "-only", "soak", "-d", h.Device, "-a", h.IPv4.String())
	if result := &r.Results[0]; status != 0 || result.Status != hwreport.Pass {
		t.Errorf("run(-only soak) = %d, %s: %q, want 0, %s", status, strings.TrimSpace(result.Line()), result.Evidence, hwreport.Pass)
	}
}
