// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/internal/hwreport"
	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
)

// here returns the place of a run in this virtual machine.
func here(t *testing.T, run string) place {
	t.Helper()
	release := os.Getenv("RDMAVM_KERNEL_RELEASE")
	for _, kernel := range kernels {
		if strings.HasPrefix(release, kernel+".") {
			return place{vmtest.Driver(), kernel, run}
		}
	}
	t.Fatalf("RDMAVM_KERNEL_RELEASE = %s, want one of %q", release, kernels)
	panic("unreachable")
}

// wantResults compares the results of the checks in a list with the table of exceptions, and the kind of the device.
func wantResults(t *testing.T, p place, only string, status int, r *hwreport.Report) {
	t.Helper()
	var ids []string
	for i := range r.Results {
		result := &r.Results[i]
		ids = append(ids, result.ID)
		want := exception{status: hwreport.Pass}
		if e := expected(result.ID, p); e != nil {
			want = *e
		}
		if result.Status != want.status || !strings.Contains(result.Reason, want.reason) {
			t.Errorf("run() on %+v = %s: %q, want %s %s", p, strings.TrimSpace(result.Line()), result.Evidence, want.status, want.reason)
		}
	}
	if got := strings.Join(ids, ","); got != only {
		t.Errorf("run() has results of %s, want %s", got, only)
	}
	if status != 0 {
		t.Errorf("run() = %d with %s, want 0", status, r.Summary())
	}
	want := hwreport.Software
	if vmtest.Modeled() {
		want = hwreport.Model
	}
	if r.Machine.Kind != want || r.Machine.Driver != vmtest.Driver() {
		t.Errorf("run() reports a %s with driver %s, want a %s with driver %s", r.Machine.Kind, r.Machine.Driver, want, vmtest.Driver())
	}
}

// tooLong lists the checks that only TestVMRun and TestVMPeer run, and only as long tests. They move much data, or repeat other
// checks, and each takes up to a minute on a busy machine.
var tooLong = map[string]bool{
	"wrap": true, "wrap-recorded": true, "storm": true, "completion-data": true, "short-data": true, "doorbells-plain": true, "doorbells-unlocked": true, "doorbells-storm": true, "doorbells-shared": true,
	"many-qps": true, "destroy": true, "churn": true, "costs": true, "costs-plain": true, "costs-no-scatter": true,
	"interop": true, "perftest": true,
}

// vlanID is the ID of the VLAN of the tests.
const vlanID = 77

// ids returns the list of the checks of a run, with the checks of tooLong if long is set. With a peer it has no checks that have both ends
// on this host. A software ConnectX reports bad-opcode as a violation by the driver, which fails the run of the virtual machine.
func ids(peer, long bool) string {
	var list []string
	for _, c := range hwcheck.All() {
		if c.Destructive || c.Soak || tooLong[c.ID] && !long || peer && c.Local || c.ID == "bad-opcode" {
			continue
		}
		list = append(list, c.ID)
	}
	return strings.Join(list, ",")
}

// minutes is the limit of a run. It is generous, because checks behind the limit are skipped.
const minutes = "60"

// TestVMRun runs the checks on a device that sends to itself.
func TestVMRun(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	vmtest.VLAN(t, vlanID, h)
	only := ids(false, longtest.Enabled())
	status, r, _ := runReport(t, realProgram(), "-only", only, "-minutes", minutes, "-d", h.Device, "-a", h.IPv4.String())
	wantResults(t, here(t, "loopback"), only, status, r)
	if r.Peer != "loopback" {
		t.Errorf("run() reports the peer %q, want loopback", r.Peer)
	}
	wantInterop(t, r)
}

// wantInterop checks that the check interop, if it ran, has run each program of rdma-core that can use the device. The check passes with
// one program.
func wantInterop(t *testing.T, r *hwreport.Report) {
	t.Helper()
	programs := []string{"rping", "ucmatose", "cmtime"}
	if !vmtest.IWARP() {
		programs = append(programs, "udaddy", "ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
	}
	if !vmtest.IWARP() && vmtest.Driver() != "bnxt_re" { // which has no UC
		programs = append(programs, "ibv_uc_pingpong")
	}
	for i := range r.Results {
		if r.Results[i].ID != "interop" {
			continue
		}
		for _, name := range programs {
			if !slices.Contains(r.Results[i].Evidence, name+": all four ways") {
				t.Errorf("run(-only interop) has the evidence %q, want %s in all four ways", r.Results[i].Evidence, name)
			}
		}
	}
}

// TestVMSoak repeats checks twice.
func TestVMSoak(t *testing.T) {
	longtest.Need(t)
	h := vmtest.Hosts(t, 1)[0]
	status, r, _ := runReport(t, realProgram(), "-soak", "1s", "-only", "soak", "-d", h.Device, "-a", h.IPv4.String())
	if result := &r.Results[0]; status != 0 || result.Status != hwreport.Pass {
		t.Errorf("run(-only soak) = %d, %s: %q, want 0, %s", status, strings.TrimSpace(result.Line()), result.Evidence, hwreport.Pass)
	}
}
