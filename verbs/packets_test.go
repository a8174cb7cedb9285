// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/verbs"
)

// TestPacketCaps checks that the packet capabilities of a driver are in the device's
// attributes. They are zero for drivers without packet capabilities.
func TestPacketCaps(t *testing.T) {
	for _, c := range []struct {
		name string
		rt   *route
		want verbs.PacketCaps
	}{
		{"mlx5", mlx5Route(t), verbs.PacketCaps{MaxTSO: 1 << 18, TSOQPTypes: 1<<8 | 1<<4}},
		{"fake", fakeRoute(), verbs.PacketCaps{}},
	} {
		dev := openDevice(t, c.rt.h, c.rt.a.Device)
		if got := dev.Attr().Packets; got != c.want {
			t.Errorf("%s: Attr().Packets = %+v, want %+v", c.name, got, c.want)
		}
	}
}
