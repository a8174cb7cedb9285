// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// fakeMachines holds a constructor of a fake kernel with two devices for each driver.
var fakeMachines = map[string]func() uverbs.Kernel{
	"rxe":  func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
	"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
}

// fakeNet is a fake kernel with a listener on one of its devices and a dialer on the other.
type fakeNet struct {
	k  *cmtest.Kernel
	ln *cm.Listener // on 10.0.0.1:7
	d  *cm.Dialer   // from 10.0.0.2
}

func newFakeNet(t *testing.T, machine uverbs.Kernel, cfg cm.ListenConfig) *fakeNet {
	t.Helper()
	k := cmtest.New(machine)
	cfg.Host = k.Host()
	return &fakeNet{k, listenOn(t, cfg, "10.0.0.1:7"), &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}}
}

// close closes the listener, and checks that the library has released all objects of the kernel.
func (n *fakeNet) close(t *testing.T) {
	t.Helper()
	n.ln.Close()
	nothingLeft(t, n.k)
}
