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

// TestRegisterCounts checks that a context requests as many registers as libmlx5 for each page
// size.
func TestRegisterCounts(t *testing.T) {
	for pageSize, want := range map[int][2]int{4 << 10: {16, 4}, 16 << 10: {16, 4}, 64 << 10: {32, 20}} {
		total := totalBFRegs(pageSize)
		if got := [2]int{total, lowLatencyBFRegs(total)}; got != want {
			t.Errorf("pages of %d bytes: %d registers, %d of them dedicated, want %v", pageSize, got[0], got[1], want)
		}
	}
}

// TestRegisters gets registers for QPs. The first four QPs get one register each. The next ones
// share the registers of twelve pages. Further QPs get the register with the fewest users.
func TestRegisters(t *testing.T) {
	c, err := openContext(t, mlx5test.New("mlx5_0"))
	if err != nil {
		t.Fatalf("openContext: %v", err)
	}
	users := make(map[*register]int)
	var own []*register
	for i := range 4 + 2*12 {
		r, err := c.uars.get(false)
		if err != nil {
			t.Fatalf("uars.get(false): %v", err)
		}
		users[r]++
		if r.Size != 256 || r.shared != (i >= 4) {
			t.Errorf("register %d: uars.get(false) = %+v, %v, want Size 256, shared %v", i, r, err, i >= 4)
		}
		if i < 4 {
			own = append(own, r)
		}
	}
	if len(users) != 4+12 {
		t.Errorf("%d different registers, want 16", len(users))
	}
	for r, n := range users {
		if want := map[bool]int{false: 1, true: 2}[r.shared]; n != want {
			t.Errorf("%d users of a register, want %d", n, want)
		}
	}
	c.uars.put(own[2])
	if r, err := c.uars.get(false); r != own[2] || err != nil {
		t.Errorf("uars.get after put = %p, %v, want %p, nil", r, err, own[2])
	}
	for r := range users {
		if r.shared {
			c.uars.put(r)
			if got, err := c.uars.get(false); got != r || err != nil {
				t.Errorf("uars.get with one register that has fewer users = %p, %v, want %p, nil", got, err, r)
			}
		}
	}
	for range 8 {
		if r, err := c.uars.get(true); err != nil || r.shared || users[r] != 0 {
			t.Errorf("uars.get(true) = %+v, %v, want an unused register, nil", r, err)
		} else {
			users[r]++
		}
	}
}

// TestShutUpBlueFlame checks that the environment turns BlueFlame off, with registers of both kinds.
func TestShutUpBlueFlame(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "1": false} {
		t.Setenv("MLX5_SHUT_UP_BF", value)
		for _, legacy := range []bool{false, true} {
			r := newSendRig(t, func(k *mlx5test.Kernel) { k.LegacyUAR = legacy })
			for range 30 {
				q, dev := r.qp(r.config(provider.RC))
				r.poison(dev)
				post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 16)})
				if _, _, b := r.rung(); (len(b) > 8) != want && (!legacy || !want) {
					t.Errorf("MLX5_SHUT_UP_BF=%s, legacy %v: doorbell of %d bytes, want BlueFlame %v", value, legacy, len(b), want)
				}
			}
		}
	}
}

// TestNoBlueFlame checks a device without BlueFlame. It has one doorbell for all QPs. The
// software state next to the doorbell is separate for each QP.
func TestNoBlueFlame(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Context = func(_ *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp) { resp.BFRegSize = 0 }
	})
	q, dev := r.qp(r.config(provider.RC))
	for range 3 {
		r.poison(dev)
		post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 64)})
		if u, at, b := r.rung(); u.Type != abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC || at != mlx5test.BlueFlame || len(b) != 8 {
			t.Errorf("ring wrote %d bytes at %#x of a page of type %d, want 8 bytes of a page of type NC", len(b), at, u.Type)
		}
	}
	if other, _ := r.qp(r.config(provider.RC)); other.sq.reg == q.sq.reg || other.sq.reg.Base != q.sq.reg.Base {
		t.Errorf("registers of two QPs = %+v and %+v, want two with one address", q.sq.reg, other.sq.reg)
	}
}

// TestLegacy checks an older kernel, which assigns the registers.
func TestLegacy(t *testing.T) {
	legacy := func(k *mlx5test.Kernel) { k.LegacyUAR = true }
	r := newSendRig(t, legacy)
	if n := len(r.ctx.uars.legacy); n == 0 || n%4 != 0 {
		t.Fatalf("%d registers, want a multiple of 4", n)
	}
	var shared int
	for i, g := range r.ctx.uars.legacy {
		if g.shared {
			shared++
		}
		if (g.Size == 0) != (i == 0) {
			t.Errorf("size of register %d = %d, want 0 only for the first", i, g.Size)
		}
	}
	// Four of the 16 ordinary registers are for one QP each: see need_uuar_lock of libmlx5.
	if shared != 22 || r.ctx.uars.legacy[0].shared || !r.ctx.uars.legacy[22].shared {
		t.Errorf("%d registers are shared, first one shared = %v, want 22, false", shared, r.ctx.uars.legacy[0].shared)
	}
	q, dev := r.qp(r.config(provider.RC))
	if dev.Create.Flags&(abi.MLX5_QP_FLAG_UAR_PAGE_INDEX|abi.MLX5_QP_FLAG_BFREG_INDEX) != 0 {
		t.Errorf("flags of CREATE_QP = %#x, want no register", dev.Create.Flags)
	}
	for i := range 4 {
		r.poison(dev)
		post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 64)})
		if u, at, b := r.rung(); u != dev.UAR || at != mlx5test.BlueFlame+i%2*mlx5test.BlueFlameSize || len(b) != 128 {
			t.Errorf("post %d wrote %d bytes at %#x, want 128 bytes, alternating between the two buffers", i, len(b), at)
		}
	}
}

// TestLegacyFirst checks the first register that a kernel assigns. All QPs may use it, with
// single stores. The software state next to it is separate for each QP. The state of each other
// register exists once.
func TestLegacyFirst(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) { k.LegacyUAR = true })
	u := &r.ctx.uars
	for i, same := range map[uint32]bool{0: false, 1: true, 22: true} {
		one, err := u.assigned(i)
		two, err2 := u.assigned(i)
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("uars.assigned(%d): %v", i, err)
		}
		if (one == two) != same || one.Register != two.Register || one.Base != u.legacy[i].Base || one.shared != u.legacy[i].shared {
			t.Errorf("uars.assigned(%d) = %+v and %+v, want the same state except for the first register", i, one, two)
		}
	}
}

// TestRegisterOutOfRange checks a kernel that returns the number of an unknown register.
func TestRegisterOutOfRange(t *testing.T) {
	c := &Context{}
	c.uars.legacy = []*register{{}, {}}
	for _, i := range []uint32{2, 1 << 31, ^uint32(0)} {
		if _, err := c.uars.assigned(i); err == nil {
			t.Errorf("uars.assigned(%d) of 2 registers succeeded", i)
		}
	}
}

// TestNoMoreUARs checks a kernel that allocates no more pages. QPs then share the existing
// pages. Without any pages, no QP can be created.
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
		t.Errorf("CreateQP without registers = %v, want ENOSPC", err)
	}
	most = 3 // one for CQs, two dedicated, one shared
	for range 10 {
		q, err := r.ctx.CreateQP(r.config(provider.RC))
		if err != nil {
			t.Fatalf("Context.CreateQP: %v", err)
		}
		defer q.Close()
	}
}
