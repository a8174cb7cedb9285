// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/verbs"
)

// TestPacketCaps: what drivers say of packets reaches the device's attributes, and is
// zero where a driver says nothing.
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
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
