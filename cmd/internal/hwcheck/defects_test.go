// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/hwreport"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/test/oracle/vector"
	"purerdma/verbs"
)

// TestDefects checks that each defect of a device fails the checks that are meant to find it.
func TestDefects(t *testing.T) {
	long := patience
	patience = 500 * time.Millisecond
	defer func() { patience = long }()
	for name, c := range map[string]struct {
		defects connectx.Defects
		checks  []string
	}{
		"lost doorbell":    {connectx.Defects{LostDoorbells: 40}, []string{"doorbells", "doorbells-plain", "doorbells-unlocked", "doorbells-storm", "doorbells-shared"}},
		"ignored fence":    {connectx.Defects{IgnoredFence: true}, []string{"fence"}},
		"swapped counters": {connectx.Defects{SwappedCounters: true}, []string{"stream", "short-data", "send-sizes", "storm", "wide-completions", "compressed"}},
		"late completion":  {connectx.Defects{LateCompletions: 50}, []string{"events", "moderation", "events-channel"}},
		"kept counters":    {connectx.Defects{KeptCounters: true}, []string{"reset"}},
		"failed streams":   {connectx.Defects{CommonStreams: true}, []string{"dc-streams"}},
		"unknown opcodes":  {connectx.Defects{UnknownOpcodes: true}, []string{"bad-opcode"}},
		"short scatter":    {connectx.Defects{ShortScatter: true}, []string{"send-sizes", "scatter", "stream", "completion-data", "vectors", "data-in-completions", "xrc", "dc", "gids", "multicast"}},
	} {
		for _, id := range c.checks {
			t.Run(name+"/"+id, func(t *testing.T) {
				target := broken(c.defects)
				check, ok := Find(id)
				if !ok {
					t.Fatalf("Find(%s) = false, want true", id)
				}
				r := check.Run(t.Context(), target)
				if r.Status != hwreport.Fail {
					t.Errorf("Run(%s) with defects %+v = %s, want %s", id, c.defects, r.Status, hwreport.Fail)
				}
				t.Logf("%.3fs: %s", r.Seconds, r.Reason)
			})
		}
	}
}

// TestTornAtomics checks that atomics which are not atomic with processors are found, if the device claims that.
func TestTornAtomics(t *testing.T) {
	check, _ := Find("atomic-processor")
	for level, want := range map[uint32]hwreport.Status{atomicDevice: hwreport.Pass, atomicGlobal: hwreport.Fail} {
		k := inprocess.New(inprocess.Config{}, "mlx5_0")
		k.Kernel.Device = func(attr *abi.UverbsExQueryDeviceResp, _ *abi.Mlx5QueryDeviceResp, _ *abi.UverbsQueryPortResp) {
			attr.Base.AtomicCap = level
		}
		k.Device("mlx5_0").SetDefects(connectx.Defects{TornAtomics: true})
		target := &Target{Host: &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, Device: "mlx5_0", Port: 1}
		r := check.Run(t.Context(), target)
		if r.Status != want {
			t.Errorf("Run(atomic-processor) with atomics of level %d in two steps = %s: %s, want %s", level, r.Status, r.Reason, want)
		}
		t.Logf("%q", r.Evidence)
	}
}

// broken returns a target with a defective device.
func broken(defects connectx.Defects) *Target {
	k := newKernel(inprocess.Config{})
	k.Device("mlx5_0").SetDefects(defects)
	return &Target{Host: &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, Device: "mlx5_0", Port: 1}
}

// TestScatterFound checks that no-data-in-completions fails if the library does not read the variable.
func TestScatterFound(t *testing.T) {
	_, target := model(t)
	check, _ := Find("no-data-in-completions")
	check.Env = nil
	if r := check.Run(t.Context(), target); r.Status != hwreport.Fail || !strings.Contains(r.Reason, "of data") {
		t.Errorf("Run(no-data-in-completions) without its variable = %s: %s, want %s", r.Status, r.Reason, hwreport.Fail)
	}
}

// TestSkippedFound checks that a check with an inexplicable completion at any end does not pass.
func TestSkippedFound(t *testing.T) {
	for where, do := range map[string]func(*trial, func(receive bool)){
		"near end": func(tr *trial, stray func(bool)) {
			l := tr.link(Config{})
			other := l.another()
			other.post(signaled(other.write(piece{0, 8}, 0)))
			l.sends(1)
			tr.must("close a QP", other.end.close())
			stray(false)
			l.send(l.write(piece{0, 8}, 0))
		},
		"far end": func(tr *trial, stray func(bool)) {
			l := tr.link(Config{})
			other := l.another()
			for _, from := range []*link{other, l} {
				from.farRecv(0, piece{0, 8})
				from.send(verbs.SendWR{Opcode: verbs.OpSend, SGList: from.elements([]piece{{0, 8}})})
				from.farReceived(1)
				if from == other {
					tr.call("Close", other.far, &struct{}{})
					stray(true)
				}
			}
		},
		"local end": func(tr *trial, stray func(bool)) {
			from, to := tr.connected(Config{})
			qp, err := from.newQP()
			tr.must("create a QP", err)
			tr.must("close a QP", qp.Close())
			stray(false)
			wr := verbs.SendWR{Opcode: verbs.OpWrite, SGList: from.elements([]piece{{0, 8}}), RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()}
			_, err = from.qp.PostSend([]verbs.SendWR{signaled(wr)})
			tr.must("post", err)
			tr.completed(from.sendCQ, "WRITE")
		},
	} {
		k, target := model(t)
		check := Check{ID: "stray", do: func(tr *trial) {
			do(tr, func(receive bool) {
				if !k.Device("mlx5_0").StrayCompletion(receive) {
					t.Errorf("StrayCompletion(%v) at the %s = false, want true", receive, where)
				}
			})
		}}
		if r := check.Run(t.Context(), target); !r.Unexplained() {
			t.Errorf("Run with a stray completion at the %s = %s: %s, want %s", where, r.Status, r.Reason, hwreport.Unknown)
		}
	}
}

// TestNothingFound checks that a check which does not use the device does not pass.
func TestNothingFound(t *testing.T) {
	_, target := model(t)
	for what, tc := range map[string]struct {
		do   func(*trial)
		want hwreport.Status
	}{
		"nothing":   {func(*trial) {}, hwreport.Unknown},
		"a link":    {func(tr *trial) { tr.link(Config{}) }, hwreport.Unknown},
		"a request": {func(tr *trial) { l := tr.link(Config{}); l.send(l.write(piece{0, 8}, 0)) }, hwreport.Pass},
		"a note":    {func(tr *trial) { tr.note("seen") }, hwreport.Pass},
	} {
		check := Check{ID: "x", do: tc.do}
		if r := check.Run(t.Context(), target); r.Status != tc.want || r.Status == hwreport.Pass && !r.HasEvidence() {
			t.Errorf("Run(%s) = %s: %s, evidence %q, want %s", what, r.Status, r.Reason, r.Evidence, tc.want)
		}
	}
}

// TestDrainFound checks that a send queue which is not drained is found.
func TestDrainFound(t *testing.T) {
	long := patience
	patience = 200 * time.Millisecond
	defer func() { patience = long }()
	_, target := model(t)
	check := Check{ID: "drain", do: func(tr *trial) { tr.drains(tr.link(Config{Memory: 256 << 10}), func() error { return nil }) }}
	if r := check.Run(t.Context(), target); r.Status != hwreport.Fail || !strings.Contains(r.Reason, "no event") {
		t.Errorf("Run(drain) of a queue that is not drained = %s: %s, want %s", r.Status, r.Reason, hwreport.Fail)
	}
}

// TestWithin judges granted options.
func TestWithin(t *testing.T) {
	offered := verbs.ECE{VendorID: 7, Options: 6}
	for granted, ok := range map[verbs.ECE]bool{
		{VendorID: 7, Options: 6}: true, {VendorID: 7, Options: 2}: true, {VendorID: 7}: true, {VendorID: 7, Options: 1}: false, {VendorID: 8, Options: 2}: false,
	} {
		if err := within(granted, offered); (err == nil) != ok {
			t.Errorf("within(%+v, %+v) = %v, want ok %v", granted, offered, err, ok)
		}
	}
}

// TestRecordingFiles checks the recordings that checks always leave, and that they are complete.
func TestRecordingFiles(t *testing.T) {
	recorded := 0
	for _, check := range All() {
		if !check.recorded {
			continue
		}
		recorded++
		target := modelFor(t, check.ID)
		target.Files = t.TempDir()
		if r := check.Run(t.Context(), target); r.Status != hwreport.Pass {
			t.Fatalf("Run(%s) = %s: %s, want %s", check.ID, r.Status, r.Reason, hwreport.Pass)
		}
		f, err := vector.ReadFile(filepath.Join(target.Files, RecordingFile))
		if err != nil {
			t.Fatalf("vector.ReadFile(%s): %v", check.ID, err)
		}
		types := map[string]bool{}
		for _, rec := range f.Sessions[0].Records {
			types[rec.Type] = true
		}
		if !types["send"] || !types["poll"] || f.Head.Device != "mlx5_0" || f.Head.Lost > 0 {
			t.Errorf("recording of %s on %s has %v and lost %d operations, want sends and polls on mlx5_0, and all operations", check.ID, f.Head.Device, types, f.Head.Lost)
		}
	}
	if recorded == 0 {
		t.Error("All() has no recorded check, want some")
	}
}
