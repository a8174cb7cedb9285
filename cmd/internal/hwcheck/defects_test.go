// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"testing"
	"time"

	"purerdma/internal/hwreport"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
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
		"lost doorbell":    {connectx.Defects{LostDoorbells: 40}, []string{"doorbells"}},
		"ignored fence":    {connectx.Defects{IgnoredFence: true}, []string{"fence"}},
		"swapped counters": {connectx.Defects{SwappedCounters: true}, []string{"stream", "short-data", "send-sizes"}},
		"late completion":  {connectx.Defects{LateCompletions: 50}, []string{"events"}},
		"short scatter":    {connectx.Defects{ShortScatter: true}, []string{"send-sizes", "scatter", "stream", "completion-data"}},
	} {
		for _, id := range c.checks {
			t.Run(name+"/"+id, func(t *testing.T) {
				k := inprocess.New(inprocess.Config{}, "mlx5_0")
				k.Device("mlx5_0").SetDefects(c.defects)
				check, ok := Find(id)
				if !ok {
					t.Fatalf("Find(%s) = false, want true", id)
				}
				r := check.Run(t.Context(), &Target{Host: &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, Device: "mlx5_0", Port: 1})
				if r.Status != hwreport.Fail {
					t.Errorf("Run(%s) with defects %+v = %s, want %s", id, c.defects, r.Status, hwreport.Fail)
				}
				t.Logf("%.3fs: %s", r.Seconds, r.Reason)
			})
		}
	}
}
