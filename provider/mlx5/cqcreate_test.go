// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"math"
	"net"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

func TestCreateCQ(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	for _, tc := range []struct{ entries, want int }{{1, 1}, {2, 3}, {3, 3}, {4, 7}, {63, 63}, {64, 127}, {1000, 1023}} {
		cq, dev := r.newCQ(provider.CQConfig{Entries: tc.entries})
		if cq.Entries() != tc.want || dev.Entries() != tc.want+1 {
			t.Errorf("%d entries: %d, device %d, want %d", tc.entries, cq.Entries(), dev.Entries(), tc.want)
		}
		if cq.Num() != dev.Num || cq.Handle() != dev.Handle {
			t.Errorf("number %#x, handle %d; want %#x, %d", cq.Num(), cq.Handle(), dev.Num, dev.Handle)
		}
	}
	for _, cfg := range []provider.CQConfig{{}, {Entries: -1}, {Entries: 1 << 24}, {Entries: math.MaxInt}, {Entries: 1, Vendor: 5},
		{Entries: 1, Vendor: &CQOptions{EntrySize: 32}}, {Entries: 1, Vendor: &CQOptions{Compression: 3}}} {
		if _, err := r.ctx.CreateCQ(&cfg); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if log, err := cqLog(1<<24 - 1); log != 24 || err != nil {
		t.Errorf("2^24-1 entries: 2^%d, %v", log, err)
	}
	if n := len(r.k.CQs()); n != 8 {
		t.Errorf("the kernel has %d CQs, want 8", n)
	}
}

// TestLargeCQ has more entries than 16 bits count, and fills them.
func TestLargeCQ(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{Entries: 70000})
	q := r.qpOf(provider.RC, nil, 1<<16)
	for _, want := range []int{1<<17 - 1, 1<<18 - 1} {
		if r.cq.Entries() != want || r.dev.Entries() != want+1 {
			t.Fatalf("%d entries, device %d, want %d", r.cq.Entries(), r.dev.Entries(), want)
		}
		for i := range uint64(5) {
			r.put(q.sendCQE(q.sendPosted(i, 0), opcodeSend))
		}
		if wcs := r.poll(); len(wcs) != 5 || wcs[4].ID != 4 {
			t.Errorf("%+v", wcs)
		}
		if err := r.cq.Resize(200000); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCQOptions(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	_, dev := r.newCQ(provider.CQConfig{Entries: 1, Vendor: &CQOptions{EntrySize: 128, Padded: true, Compression: CompressChecksum}})
	if c := dev.Create; c.CQESize != 128 || c.Flags&1 == 0 || c.CQECompEn != 1 || c.CQECompResFormat != 2 {
		t.Errorf("%+v", c)
	}
	_, dev = r.newCQ(provider.CQConfig{Entries: 1})
	if c := dev.Create; c.CQESize != 64 || c.Flags != 2 || c.CQECompEn != 0 {
		t.Errorf("without options: %+v", c)
	}
	for _, c := range []caps{{}, {realTimeTS: true}} {
		r.ctx.caps = c
		for _, opt := range []CQOptions{{EntrySize: 128, Padded: true}, {Compression: CompressHash}, {EntrySize: 128, Compression: CompressHash}, {RealTime: !c.realTimeTS}} {
			if opt == (CQOptions{}) {
				continue
			}
			if _, err := opt.check(&c); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%+v of %+v: %v", opt, c, err)
			}
		}
	}
}

// TestRegisterPages has the kernel told which page CQs are armed by: in the command's
// 16 bits, or in an attribute of its own.
func TestRegisterPages(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	if p := r.dev.Create; p.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX == 0 || uint32(p.UARPageIndex) != r.ctx.uars.plain.page {
		t.Errorf("%+v", p)
	}
	for _, page := range []uint32{0xffff, 0x10000, 0x123456} {
		r.ctx.uars.plain.page = page
		refused := errors.New("looked at")
		r.before = func(req *uverbs.Request) error {
			cmd := abi.View[abi.Mlx5CreateCQ](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf)
			got := uint32(cmd.UARPageIndex)
			if a := req.Find(abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX); a != nil {
				if cmd.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0 || cmd.UARPageIndex != 0 {
					t.Errorf("page %#x: both: %+v", page, cmd)
				}
				got = *abi.View[uint32](a.Buf)
			} else if cmd.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX == 0 {
				t.Errorf("page %#x: %+v", page, cmd)
			}
			if got != page {
				t.Errorf("page %#x: the kernel gets %#x", page, got)
			}
			return refused
		}
		if _, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 1}); !errors.Is(err, refused) {
			t.Error(err)
		}
		r.before = nil
	}
	legacy := &cqRig{t: t, k: mlx5test.New("mlx5_0")}
	legacy.k.LegacyUAR = true
	legacy.open(provider.CQConfig{})
	if c := legacy.dev.Create; c.Flags != 0 || c.UARPageIndex != 0 {
		t.Errorf("of a kernel that assigns pages: %+v", c)
	}
	if err := legacy.cq.Arm(false); err != nil {
		t.Error(err)
	}
}

func TestClosedCQ(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	r.put(q.sendCQE(q.sendPosted(1, 0), opcodeSend))
	if err := r.cq.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := r.cq.Poll(make([]provider.WC, 4))
	if n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Poll: %d, %v", n, err)
	}
	if _, err := r.cq.PollExtended(make([]Completion, 4)); !errors.Is(err, net.ErrClosed) {
		t.Error("PollExtended:", err)
	}
	if err := r.cq.Arm(false); !errors.Is(err, net.ErrClosed) {
		t.Error("Arm:", err)
	}
	if err := r.cq.Resize(100); !errors.Is(err, net.ErrClosed) {
		t.Error("Resize:", err)
	}
	r.cq.purgeQP(q)
	if err := r.cq.Close(); err != nil {
		t.Error("Close again:", err)
	}
}

func TestClosedFile(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	r.f.Close()
	if _, err := r.cq.Poll(make([]provider.WC, 4)); !errors.Is(err, net.ErrClosed) {
		t.Error("Poll:", err)
	}
	if err := r.cq.Arm(false); !errors.Is(err, net.ErrClosed) {
		t.Error("Arm:", err)
	}
}
