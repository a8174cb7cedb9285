// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purerdma/abi"
	"purerdma/cm/cmtest"
	"purerdma/internal/cmdtrace"
	"purerdma/internal/hwreport"
	"purerdma/internal/vmtest"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

func TestMain(m *testing.M) {
	cmdtrace.Main()
	vmtest.Main(m)
}

// model returns a kernel with one software ConnectX, and the target.
func model(t testing.TB) (*inprocess.Kernel, *Target) {
	k := newKernel(inprocess.Config{Violation: inprocess.Fail(t)})
	return k, &Target{Host: &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, Device: "mlx5_0", Port: 1}
}

// complaints has the checks that do what a driver must not do, with a part of the model's text about it.
var complaints = map[string]string{"bad-opcode": "operation 0x3f"}

// modelFor returns a target with a software ConnectX for a check.
func modelFor(t testing.TB, id string) *Target {
	_, target := model(t)
	if want := complaints[id]; want != "" {
		fail := inprocess.Fail(t)
		k := newKernel(inprocess.Config{Violation: func(v connectx.Violation) {
			if !strings.Contains(v.Text, want) {
				fail(v)
			}
		}})
		target.Host = &verbs.Host{Drivers: target.Host.Drivers, Kernel: k}
	}
	return target
}

// newKernel returns a kernel with one software ConnectX. It reports attributes of a kernel with a card.
func newKernel(cfg inprocess.Config) *inprocess.Kernel {
	k := inprocess.New(cfg, "mlx5_0")
	k.Kernel.Device = func(attr *abi.UverbsExQueryDeviceResp, own *abi.Mlx5QueryDeviceResp, _ *abi.UverbsQueryPortResp) {
		own.DCIStreamsCaps = abi.Mlx5DCIStreamsCaps{MaxLogNumConcurent: 4, MaxLogNumErrored: 4}
		attr.HCACoreClock = 1000 // kHz, of the model
		attr.CQModerationCaps = abi.UverbsCQModerationCaps{MaxCQModerationCount: 0xffff, MaxCQModerationPeriod: 4095}
	}
	return k
}

// unsupported lists the checks whose preconditions the model does not meet.
var unsupported = map[string]bool{
	"on-demand": true, "connections": true, "streams": true, "calls": true, "perftest": true, "interop": true, "vlan": true,
	"raw-packets": true, "raw-offloads": true, "raw-receive": true, "dma-buf": true, "memlock": true, "network-namespace": true, "no-sysfs": true, "health": true, "drain": true, "soak": true, "numa": true, "other-port": true, "address-resolution": true, "infiniband": true, "program-commands": true,
}

// TestModel runs each check on the software ConnectX. It must pass each that it can run.
func TestModel(t *testing.T) {
	for _, c := range All() {
		if c.Destructive || excluded[c.ID] { // not on the host of the test
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			r := c.Run(t.Context(), modelFor(t, c.ID))
			for _, line := range r.Evidence {
				t.Log(line)
			}
			t.Logf("%.3fs", r.Seconds)
			want := hwreport.Pass
			if unsupported[c.ID] {
				want = hwreport.Skip
			}
			if r.Status != want || want == hwreport.Pass && !r.HasEvidence() {
				t.Errorf("Run(%s) = %s: %s, evidence %q, want %s", c.ID, r.Status, r.Reason, r.Evidence, want)
			}
		})
	}
}

// TestFarStates checks that errors leave the states of the peer's QP in the evidence.
func TestFarStates(t *testing.T) {
	for id, line := range map[string]string{
		"rnr":     "SEND without a receive: the QP of the far end is in state RTS",
		"retries": "WRITE to a QP in error: the QP of the far end is in state ERR",
	} {
		check, _ := Find(id)
		if r := check.Run(t.Context(), modelFor(t, id)); r.Status != hwreport.Pass || !slices.Contains(r.Evidence, line) {
			t.Errorf("Run(%s) = %s: %s, evidence %q, want %s with %q", id, r.Status, r.Reason, r.Evidence, hwreport.Pass, line)
		}
	}
}

// TestCosts checks that the costs on a ConnectX include each way to post and to receive.
func TestCosts(t *testing.T) {
	check, _ := Find("costs")
	r := check.Run(t.Context(), modelFor(t, check.ID))
	for _, want := range []string{
		"inline WRITE of 8 bytes, lists of 16: post", "inline WRITE of 8 bytes by a shared register, lists of 1: post",
		"receive of 16 bytes, 4 pollers: poll", "receive of 16 bytes, completions of 128 bytes, 1 pollers: poll", "register and close 1 MiB",
	} {
		if !slices.ContainsFunc(r.Evidence, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("Run(costs) = %s: %s, evidence %q, want %q", r.Status, r.Reason, r.Evidence, want)
		}
	}
}

// TestManager runs the checks of the connection manager on a kernel in memory.
func TestManager(t *testing.T) {
	target := &Target{Host: cmtest.New(uverbstest.New("rxe0")).Host(), Device: "rxe0", Port: 1, Addr: netip.MustParseAddr("10.0.0.1")}
	for _, c := range connectionChecks {
		t.Run(c.ID, func(t *testing.T) {
			if r := c.Run(t.Context(), target); r.Status != hwreport.Pass {
				t.Errorf("Run(%s) = %s: %s, want %s", c.ID, r.Status, r.Reason, hwreport.Pass)
			}
		})
	}
}
