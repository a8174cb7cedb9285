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

// TestOtherPort sends to the port of a second device: a good port, a defective port, and an unreachable port.
func TestOtherPort(t *testing.T) {
	for what, tc := range map[string]struct {
		spoil func(*inprocess.Kernel)
		want  hwreport.Status
	}{
		"good":      {func(*inprocess.Kernel) {}, hwreport.Pass},
		"defective": {func(k *inprocess.Kernel) { k.Device("mlx5_1").SetDefects(connectx.Defects{ShortScatter: true}) }, hwreport.Fail},
		"unreached": {func(k *inprocess.Kernel) {
			k.Fabric.OnPacket(func(*connectx.Packet) (connectx.Fate, time.Duration) { return connectx.Lost, 0 })
		}, hwreport.Unknown},
	} {
		k := inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")
		tc.spoil(k)
		target := &Target{Host: &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, Device: "mlx5_0", Port: 1}
		check, _ := Find("other-port")
		if r := check.Run(t.Context(), target); r.Status != tc.want {
			t.Errorf("Run(other-port) to a port that is %s = %s: %s, want %s", what, r.Status, r.Reason, tc.want)
		}
	}
}
