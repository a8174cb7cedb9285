// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"net/netip"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestGIDForOnFakes checks that the devices of a fake kernel belong to the network interfaces
// of the fake kernel, not of this machine.
func TestGIDForOnFakes(t *testing.T) {
	for _, k := range []uverbs.Kernel{uverbstest.New("a", "b"), mlx5test.New("a", "b")} {
		h := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}, mlx5.Driver{}}, Kernel: k}
		dev := openDevice(t, h, "b")
		for _, addr := range []netip.Addr{{}, netip.MustParseAddr("10.0.0.2")} {
			if g, err := dev.GIDFor(1, addr); err != nil || g.GID.Addr() != netip.MustParseAddr("10.0.0.2") || g.Ifindex != 2 {
				t.Errorf("%T: GIDFor(%v) = %+v, %v, want 10.0.0.2 of interface 2", k, addr, g, err)
			}
		}
		var none *verbs.NoGIDError
		_, err := dev.GIDFor(1, netip.MustParseAddr("10.0.0.1"))
		if !errors.As(err, &none) || none.Reason != "it is an address of eth0, the device belongs to eth1" {
			t.Errorf("%T: GIDFor(10.0.0.1) = %v, want an error with the interface of the address", k, err)
		}
	}
}
