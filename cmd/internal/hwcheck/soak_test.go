// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"os"
	"strings"
	"testing"
	"time"

	"purerdma/internal/hwreport"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// TestSoak runs the soak for a moment, with and without checks that leave something behind.
func TestSoak(t *testing.T) {
	long := settleTime
	settleTime = 200 * time.Millisecond
	defer func() { settleTime = long }()
	idle := func(*trial) {}
	for what, tc := range map[string]struct {
		do   func(*trial)
		want string // reason of a failure
	}{
		"a request": {func(tr *trial) { l := tr.link(Config{}); l.send(l.write(piece{0, 8}, 0)) }, ""},
		"files": {func(tr *trial) {
			leaveFiles(t, moreFiles+1)
			tr.note("opened")
		}, "files"},
		"a QP": {func(tr *trial) {
			leaveQP(t, tr.target)
			tr.note("created")
		}, "QPs"},
		"a failure": {func(tr *trial) { tr.fail("wrong") }, "wrong"},
		"nothing":   {idle, "observed nothing"},
	} {
		_, target := model(t)
		target.Soak = 10 * time.Millisecond
		step := Check{ID: "step", do: tc.do}
		check := Check{ID: "soak", do: func(tr *trial) { tr.soak([]Check{step}) }}
		r := check.Run(t.Context(), target)
		if (r.Status == hwreport.Pass) != (tc.want == "") || !strings.Contains(r.Reason, tc.want) {
			t.Errorf("Run(soak) with a check that leaves %s = %s: %s, want a reason with %q", what, r.Status, r.Reason, tc.want)
		}
	}
	if len(soaked()) < 10 {
		t.Errorf("soaked() = %d checks, want all of its list", len(soaked()))
	}
}

// leaveFiles opens files, which the end of the test closes.
func leaveFiles(t *testing.T, n int) {
	for range n {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Errorf("os.Open: %v", err)
			return
		}
		t.Cleanup(func() { f.Close() })
	}
}

// leaveQP creates a QP, which the end of the test closes.
func leaveQP(t *testing.T, target *Target) {
	dev, err := target.Host.Open(target.Device)
	if err != nil {
		t.Errorf("Host.Open: %v", err)
		return
	}
	t.Cleanup(func() { dev.Close() })
	pd, err := dev.AllocPD()
	if err != nil {
		t.Errorf("Device.AllocPD: %v", err)
		return
	}
	t.Cleanup(func() { pd.Close() })
	qp, err := pd.CreateQP(verbs.QPConfig{})
	if err != nil {
		t.Errorf("PD.CreateQP: %v", err)
		return
	}
	t.Cleanup(func() { qp.Close() })
}

// TestDisturb disturbs a device whose port goes down, with and without something that remains.
func TestDisturb(t *testing.T) {
	long := settleTime
	settleTime = 200 * time.Millisecond
	defer func() { settleTime = long }()
	for what, tc := range map[string]struct {
		leave func(*Target)
		want  string // reason of a failure
	}{
		"nothing": {func(*Target) {}, ""},
		"a QP":    {func(target *Target) { leaveQP(t, target) }, "QPs"},
		"files":   {func(*Target) { leaveFiles(t, moreAfterFault+1) }, "files"},
	} {
		k, target := model(t)
		set := func(up bool) func() error {
			return func() error {
				k.Device("mlx5_0").SetPort(up)
				if !up {
					tc.leave(target)
				}
				return nil
			}
		}
		check := Check{ID: "link-down", do: func(tr *trial) { tr.disturb("link down", set(false), set(true)) }}
		r := check.Run(t.Context(), target)
		if (r.Status == hwreport.Pass) != (tc.want == "") || !strings.Contains(r.Reason, tc.want) {
			t.Errorf("Run(link-down) that leaves %s = %s: %s, %q, want a reason with %q", what, r.Status, r.Reason, r.Evidence, tc.want)
		}
	}
}

// silent returns a target whose link obeys set.
func silent(t *testing.T, set func(*inprocess.Kernel, bool)) *Target {
	k := newKernel(inprocess.Config{})
	_, target := model(t)
	target.Host = &verbs.Host{Drivers: target.Host.Drivers, Kernel: k}
	target.setLink = func(up bool) error { set(k, up); return nil }
	return target
}

// TestSilentPeer runs the check of a silent peer with a link that goes down, with a link that stays up, and with files that remain.
func TestSilentPeer(t *testing.T) {
	long, longSettle := silenceTime, settleTime
	silenceTime, settleTime = time.Second, 200*time.Millisecond
	defer func() { silenceTime, settleTime = long, longSettle }()
	check, _ := Find("peer-silent")
	r := check.Run(t.Context(), silent(t, func(k *inprocess.Kernel, up bool) { k.Device("mlx5_0").SetPort(up) }))
	if r.Status != hwreport.Pass {
		t.Errorf("Run(peer-silent) = %s: %s, %q, want %s", r.Status, r.Reason, r.Evidence, hwreport.Pass)
	}
	r = check.Run(t.Context(), silent(t, func(*inprocess.Kernel, bool) {}))
	if r.Status != hwreport.Fail || !strings.Contains(r.Reason, "have completed while the link") {
		t.Errorf("Run(peer-silent) with a link that stays up = %s: %s, want %s", r.Status, r.Reason, hwreport.Fail)
	}
	r = check.Run(t.Context(), silent(t, func(k *inprocess.Kernel, up bool) {
		k.Device("mlx5_0").SetPort(up)
		leaveFiles(t, moreAfterFault+1)
	}))
	if r.Status != hwreport.Fail || !strings.Contains(r.Reason, "files") {
		t.Errorf("Run(peer-silent) with files that remain = %s: %s, want %s", r.Status, r.Reason, hwreport.Fail)
	}
	_, target := model(t)
	if r := check.Run(t.Context(), target); r.Status != hwreport.Skip {
		t.Errorf("Run(peer-silent) without a peer = %s: %s, want %s", r.Status, r.Reason, hwreport.Skip)
	}
}
