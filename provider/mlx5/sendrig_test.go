// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// sendRig is a context on a kernel in memory, for queue pairs whose rings the tests read as the
// device would.
type sendRig struct {
	t   testing.TB
	k   *mlx5test.Kernel
	ctx *Context
	pd  provider.PD
	cq  provider.CQ
}

// openContext opens the first device of a kernel.
func openContext(t testing.TB, k *mlx5test.Kernel) (*Context, error) {
	t.Helper()
	infos, err := k.Devices()
	if err != nil {
		t.Fatalf("Kernel.Devices: %v", err)
	}
	f, err := uverbs.Open(k, infos[0])
	if err != nil {
		t.Fatalf("uverbs.Open: %v", err)
	}
	ctx, err := Driver{}.Open(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c := ctx.(*Context)
	t.Cleanup(func() {
		if err := errors.Join(f.Close(), c.Close()); err != nil {
			t.Errorf("File.Close and Context.Close: %v", err)
		}
	})
	return c, nil
}

// newSendRig opens a device of a kernel. change, if not nil, can change the kernel before.
func newSendRig(t testing.TB, change func(*mlx5test.Kernel)) *sendRig {
	t.Helper()
	r := &sendRig{t: t, k: mlx5test.New("mlx5_0")}
	if change != nil {
		change(r.k)
	}
	var err error
	if r.ctx, err = openContext(t, r.k); err != nil {
		t.Fatalf("openContext: %v", err)
	}
	if r.pd, err = r.ctx.AllocPD(); err != nil {
		t.Fatalf("Context.AllocPD: %v", err)
	}
	if r.cq, err = r.ctx.CreateCQ(&provider.CQConfig{Entries: 1023}); err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	t.Cleanup(func() { r.cq.Close() })
	return r
}

// config returns the configuration of a QP with 16 requests, each of 4 elements or 200 bytes
// inline.
func (r *sendRig) config(typ provider.QPType) *provider.QPConfig {
	return &provider.QPConfig{
		Type: typ, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq,
		Cap: provider.QPCap{SendWR: 16, RecvWR: 16, SendSGE: 4, RecvSGE: 3, Inline: 200},
	}
}

// qp creates a QP in RTS.
func (r *sendRig) qp(cfg *provider.QPConfig) (*QP, *mlx5test.QP) {
	r.t.Helper()
	q, err := r.ctx.CreateQP(cfg)
	if err != nil {
		r.t.Fatalf("Context.CreateQP: %v", err)
	}
	return r.ready(q.(*QP))
}

// ready moves a new QP to RTS.
func (r *sendRig) ready(q *QP) (*QP, *mlx5test.QP) {
	r.t.Helper()
	r.t.Cleanup(func() { q.Close() })
	moveTo(r.t, q, provider.QPRTS)
	all := r.k.QPs()
	return q, all[len(all)-1]
}

// moveTo moves a QP from RESET to a state.
func moveTo(t testing.TB, q *QP, to provider.QPState) {
	t.Helper()
	const every = provider.QPAttrState | provider.QPAttrPort | provider.QPAttrPKeyIndex
	masks := map[provider.QPState]provider.QPAttrMask{
		provider.QPInit: every | provider.QPAttrAccess | provider.QPAttrQKey,
		provider.QPRTR:  provider.QPAttrState | provider.QPAttrAV | provider.QPAttrPathMTU | provider.QPAttrDestQPNum | provider.QPAttrRQPSN | provider.QPAttrMaxDestRdAtomic | provider.QPAttrMinRNRTimer,
		provider.QPRTS:  provider.QPAttrState | provider.QPAttrTimeout | provider.QPAttrRetryCount | provider.QPAttrRNRRetryCount | provider.QPAttrSQPSN | provider.QPAttrMaxRdAtomic,
	}
	for s := provider.QPInit; s <= to; s++ {
		a := provider.QPAttr{State: s, Port: 1, PathMTU: provider.MTU1024, DestQPNum: 5, AH: provider.AHAttr{Global: true, Port: 1}}
		if err := q.Modify(&a, masks[s]); err != nil {
			t.Fatalf("to %v: QP.Modify: %v", s, err)
		}
	}
}

// post posts requests, all of which must be accepted.
func post(t testing.TB, q provider.QP, wrs ...provider.SendWR) {
	t.Helper()
	if n, err := q.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatalf("PostSend = %d, %v, want %d, nil", n, err, len(wrs))
	}
}

// poison fills the ring and the register pages, so that a test can detect unwritten bytes.
func (r *sendRig) poison(dev *mlx5test.QP) {
	fillWith(dev.SQ, 0xcc)
	for _, u := range r.k.UARs() {
		fillWith(u.Mem, 0xee)
	}
}

func fillWith(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// words encodes big-endian numbers of 4 bytes.
func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// stale returns n words as poison leaves them.
func stale(n int) []byte { return bytes.Repeat([]byte{0xcc}, 4*n) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// checkWQE compares the blocks from index on with want.
func checkWQE(t testing.TB, dev *mlx5test.QP, index uint16, want []byte) {
	t.Helper()
	got := dev.SendWQE(index, len(want))
	if bytes.Equal(got, want) {
		return
	}
	for i := 0; i < len(want); i += segment {
		a, b := got[i:min(i+segment, len(got))], want[i:min(i+segment, len(want))]
		if !bytes.Equal(a, b) {
			t.Errorf("segment %d = % x, want\n            % x", i/segment, a, b)
		}
	}
}

// rung returns the bytes that were written to the register pages, and their location.
func (r *sendRig) rung() (u *mlx5test.UAR, at int, b []byte) {
	r.t.Helper()
	for _, p := range r.k.UARs() {
		lo, hi := -1, 0
		for i, v := range p.Mem {
			if v != 0xee {
				if lo < 0 {
					lo = i
				}
				hi = i + 1
			}
		}
		if lo < 0 {
			continue
		}
		if u != nil {
			r.t.Fatal("two register pages were written")
		}
		u, at, b = p, lo, p.Mem[lo:(hi+7)&^7]
	}
	return u, at, b
}

// wantsHeaders makes devices require the Ethernet header of packets inline.
func wantsHeaders(k *mlx5test.Kernel) {
	k.Context = func(_ *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp) {
		resp.EthMinInline = abi.MLX5_USER_INLINE_MODE_L2
	}
}
