// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// TestRegisterCounts: a context asks for as many registers as libmlx5, with pages of any
// size.
func TestRegisterCounts(t *testing.T) {
	for pageSize, want := range map[int][2]int{4 << 10: {16, 4}, 16 << 10: {16, 4}, 64 << 10: {32, 20}} {
		total := totalBFRegs(pageSize)
		if got := [2]int{total, lowLatencyBFRegs(total)}; got != want {
			t.Errorf("pages of %d bytes: %d registers, of one QP each %d, want %v", pageSize, got[0], got[1], want)
		}
	}
}

// TestRegisters takes registers as QPs do: the first four have one each, the next
// twelve pages are shared, and then the one with the fewest users is taken.
func TestRegisters(t *testing.T) {
	c, err := openContext(t, mlx5test.New("mlx5_0"))
	if err != nil {
		t.Fatal(err)
	}
	users := make(map[*register]int)
	var own []*register
	for i := range 4 + 2*12 {
		r, err := c.uars.get(false)
		if err != nil {
			t.Fatal(err)
		}
		users[r]++
		if r.Size != 256 || r.shared != (i >= 4) {
			t.Errorf("register %d: %+v", i, r)
		}
		if i < 4 {
			own = append(own, r)
		}
	}
	if len(users) != 4+12 {
		t.Errorf("%d registers, want 16", len(users))
	}
	for r, n := range users {
		if want := map[bool]int{false: 1, true: 2}[r.shared]; n != want {
			t.Errorf("%d users of a register, want %d", n, want)
		}
	}
	c.uars.put(own[2])
	if r, err := c.uars.get(false); r != own[2] || err != nil {
		t.Errorf("a register that was given back: %p, %v, want %p", r, err, own[2])
	}
	for r := range users {
		if r.shared {
			c.uars.put(r)
			if got, err := c.uars.get(false); got != r || err != nil {
				t.Errorf("a register with one user less than the others: %p, %v, want %p", got, err, r)
			}
		}
	}
	for range 8 {
		if r, err := c.uars.get(true); err != nil || r.shared || users[r] != 0 {
			t.Errorf("register of one goroutine: %+v, %v", r, err)
		} else {
			users[r]++
		}
	}
}

// TestNoBlueFlame: a device without BlueFlame has one doorbell for all; and what a ring
// writes beside it, each QP has for itself.
func TestNoBlueFlame(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Context = func(_ *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp) { resp.BFRegSize = 0 }
	})
	q, dev := r.qp(r.config(provider.RC))
	for range 3 {
		r.poison(dev)
		post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 64)})
		if u, at, b := r.rung(); u.Type != abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC || at != mlx5test.BlueFlame || len(b) != 8 {
			t.Errorf("wrote %d bytes to %#x of a page of type %d", len(b), at, u.Type)
		}
	}
	if other, _ := r.qp(r.config(provider.RC)); other.sq.reg == q.sq.reg || other.sq.reg.Base != q.sq.reg.Base {
		t.Errorf("two QPs with the registers %+v and %+v", q.sq.reg, other.sq.reg)
	}
}

// TestLegacy: the kernel of before assigns registers.
func TestLegacy(t *testing.T) {
	legacy := func(k *mlx5test.Kernel) { k.LegacyUAR = true }
	r := newSendRig(t, legacy)
	if n := len(r.ctx.uars.legacy); n == 0 || n%4 != 0 {
		t.Fatalf("%d registers", n)
	}
	var shared int
	for i, g := range r.ctx.uars.legacy {
		if g.shared {
			shared++
		}
		if (g.Size == 0) != (i == 0) {
			t.Errorf("register %d: %d bytes", i, g.Size)
		}
	}
	// Of 16 for ordinary use, four are for one QP each: see need_uuar_lock of libmlx5.
	if shared != 22 || r.ctx.uars.legacy[0].shared || !r.ctx.uars.legacy[22].shared {
		t.Errorf("%d are shared, the first: %v", shared, r.ctx.uars.legacy[0].shared)
	}
	q, dev := r.qp(r.config(provider.RC))
	if dev.Create.Flags&(abi.MLX5_QP_FLAG_UAR_PAGE_INDEX|abi.MLX5_QP_FLAG_BFREG_INDEX) != 0 {
		t.Errorf("flags %#x name a register", dev.Create.Flags)
	}
	for i := range 4 {
		r.poison(dev)
		post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 64)})
		if u, at, b := r.rung(); u != dev.UAR || at != mlx5test.BlueFlame+i%2*mlx5test.BlueFlameSize || len(b) != 128 {
			t.Errorf("post %d wrote %d bytes to %#x", i, len(b), at)
		}
	}
}

// TestLegacyFirst: the first register that a kernel assigns is for everybody, by single
// stores; what a ring writes beside it, each QP has for itself. The others are there
// once.
func TestLegacyFirst(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) { k.LegacyUAR = true })
	u := &r.ctx.uars
	for i, same := range map[uint32]bool{0: false, 1: true, 22: true} {
		one, err := u.assigned(i)
		two, err2 := u.assigned(i)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if (one == two) != same || one.Register != two.Register || one.Base != u.legacy[i].Base || one.shared != u.legacy[i].shared {
			t.Errorf("register %d: %+v and %+v", i, one, two)
		}
	}
}

// TestRegisterOutOfRange: a kernel that names a register that is not there.
func TestRegisterOutOfRange(t *testing.T) {
	c := &Context{}
	c.uars.legacy = []*register{{}, {}}
	for _, i := range []uint32{2, 1 << 31, ^uint32(0)} {
		if _, err := c.uars.assigned(i); err == nil {
			t.Errorf("register %d of 2", i)
		}
	}
}

// TestNoMoreUARs: without pages for more, QPs share those that there are; without
// any there are no QPs.
func TestNoMoreUARs(t *testing.T) {
	var most int
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Intercept = func(req *uverbs.Request) error {
			if req.Object == abi.MLX5_IB_OBJECT_UAR && most >= 0 && len(k.UARs()) > most {
				return syscall.ENOSPC
			}
			return nil
		}
	})
	if _, err := r.ctx.CreateQP(r.config(provider.RC)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("without registers: %v", err)
	}
	most = 3 // the CQs', two for the dedicated, one for the shared
	for range 10 {
		q, err := r.ctx.CreateQP(r.config(provider.RC))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
	}
}
