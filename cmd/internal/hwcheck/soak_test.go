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
			for range moreFiles + 1 {
				f, err := os.Open(os.DevNull)
				tr.must("open", err)
				t.Cleanup(func() { f.Close() })
			}
			tr.note("opened")
		}, "files"},
		"a QP": {func(tr *trial) {
			dev, err := tr.target.Host.Open(tr.target.Device)
			tr.must("open", err)
			pd, err := dev.AllocPD()
			tr.must("allocate a PD", err)
			qp, err := pd.CreateQP(verbs.QPConfig{})
			tr.must("create a QP", err)
			t.Cleanup(func() { qp.Close(); pd.Close(); dev.Close() })
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

// silent returns a target whose link obeys set.
func silent(t *testing.T, set func(*inprocess.Kernel, bool)) *Target {
	k := newKernel(inprocess.Config{})
	_, target := model(t)
	target.Host = &verbs.Host{Drivers: target.Host.Drivers, Kernel: k}
	target.setLink = func(up bool) error { set(k, up); return nil }
	return target
}

// TestSilentPeer runs the check of a silent peer with a link that goes down, and with a link that stays up.
func TestSilentPeer(t *testing.T) {
	long := silenceTime
	silenceTime = time.Second
	defer func() { silenceTime = long }()
	check, _ := Find("peer-silent")
	r := check.Run(t.Context(), silent(t, func(k *inprocess.Kernel, up bool) { k.Device("mlx5_0").SetPort(up) }))
	if r.Status != hwreport.Pass {
		t.Errorf("Run(peer-silent) = %s: %s, %q, want %s", r.Status, r.Reason, r.Evidence, hwreport.Pass)
	}
	r = check.Run(t.Context(), silent(t, func(*inprocess.Kernel, bool) {}))
	if r.Status != hwreport.Fail || !strings.Contains(r.Reason, "have completed while the link") {
		t.Errorf("Run(peer-silent) with a link that stays up = %s: %s, want %s", r.Status, r.Reason, hwreport.Fail)
	}
	_, target := model(t)
	if r := check.Run(t.Context(), target); r.Status != hwreport.Skip {
		t.Errorf("Run(peer-silent) without a peer = %s: %s, want %s", r.Status, r.Reason, hwreport.Skip)
	}
}
