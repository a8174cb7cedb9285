// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// TestAdviseOnOtherMemory checks that advice about memory that is not on-demand memory of the
// PD does not reach the kernel. The kernel would treat it as on-demand memory.
func TestAdviseOnOtherMemory(t *testing.T) {
	k := mlx5test.New("mlx5_0")
	asked := 0
	k.Intercept = func(r *uverbs.Request) error {
		in := r.Find(abi.UVERBS_ATTR_CORE_IN)
		switch {
		case r.Object == abi.UVERBS_OBJECT_MR && r.Method == abi.UVERBS_METHOD_ADVISE_MR:
			asked++
		case in == nil:
		case len(in.Buf) == abi.Size[abi.UverbsRegMR](): // the fake does not support such memory
			abi.View[abi.UverbsRegMR](in.Buf).AccessFlags &^= abi.IB_UVERBS_ACCESS_ON_DEMAND
		case len(in.Buf) == abi.Size[abi.UverbsReregMR]():
			abi.View[abi.UverbsReregMR](in.Buf).AccessFlags &^= abi.IB_UVERBS_ACCESS_ON_DEMAND
		}
		return nil
	}
	dev, err := (&Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}).Open("mlx5_0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	closed := func(what interface{ Close() error }) {
		t.Cleanup(func() {
			if err := what.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	closed(dev)
	dev.attr.ODP.Supported = true
	var pds [2]*PD
	for i := range pds {
		if pds[i], err = dev.AllocPD(); err != nil {
			t.Fatalf("Device.AllocPD: %v", err)
		}
		closed(pds[i])
	}
	pd, other := pds[0], pds[1]
	alloc := func(access Access) *MR {
		mr, err := pd.Alloc(4096, access)
		if err != nil {
			t.Fatalf("PD.Alloc: %v", err)
		}
		closed(mr)
		return mr
	}
	pinned, mr := alloc(LocalWrite), alloc(LocalWrite|OnDemand)
	piece := mr.SGE()
	advise := func(pd *PD, reaches bool, pieces ...SGE) {
		t.Helper()
		asked = 0
		err := pd.Advise(PrefetchWrite, false, pieces...)
		if refused := errors.Is(err, syscall.EINVAL) && strings.Contains(err.Error(), "of no on-demand memory of this PD"); asked != 0 != reaches || refused == reaches {
			t.Errorf("Advise = %v with %d commands, want a command: %v", err, asked, reaches)
		}
	}
	advise(pd, true, piece)
	advise(pd, false, pinned.SGE())
	advise(pd, false, piece, pinned.SGE())
	advise(pd, false, SGE{Addr: piece.Addr, Length: piece.Length})
	advise(other, false, piece)
	if err := mr.Reregister(MRChange{PD: other}); err != nil {
		t.Fatalf("MR.Reregister: %v", err)
	}
	advise(pd, false, mr.SGE())
	advise(other, true, mr.SGE())
	access := LocalWrite | OnDemand
	if err := pinned.Reregister(MRChange{Access: &access}); err != nil {
		t.Fatalf("MR.Reregister: %v", err)
	}
	advise(pd, false, pinned.SGE()) // it is pinned nevertheless
	if err := mr.Close(); err != nil {
		t.Fatalf("MR.Close: %v", err)
	}
	advise(other, false, piece)
}
