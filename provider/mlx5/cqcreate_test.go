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
			t.Errorf("CreateCQ of %d entries: Entries() = %d, of the device %d, want %d and %d", tc.entries, cq.Entries(), dev.Entries(), tc.want, tc.want+1)
		}
		if cq.Num() != dev.Num || cq.Handle() != dev.Handle {
			t.Errorf("Num(), Handle() = %#x, %d, want %#x, %d", cq.Num(), cq.Handle(), dev.Num, dev.Handle)
		}
	}
	for _, cfg := range []provider.CQConfig{{}, {Entries: -1}, {Entries: 1 << 24}, {Entries: math.MaxInt}, {Entries: 1, Vendor: 5},
		{Entries: 1, Vendor: &CQOptions{EntrySize: 32}}, {Entries: 1, Vendor: &CQOptions{Compression: 3}}} {
		if _, err := r.ctx.CreateCQ(&cfg); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: Context.CreateCQ: error = %v, want EINVAL", cfg, err)
		}
	}
	if log, err := cqLog(1<<24 - 1); log != 24 || err != nil {
		t.Errorf("cqLog(2^24-1) = %d, %v, want 24, nil", log, err)
	}
	if n := len(r.k.CQs()); n != 8 {
		t.Errorf("the kernel has %d CQs, want 8", n)
	}
}

// TestLargeCQ creates a CQ with more entries than 16 bits can count, and fills it.
func TestLargeCQ(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{Entries: 70000})
	q := r.qpOf(provider.RC, nil, 1<<16)
	for _, want := range []int{1<<17 - 1, 1<<18 - 1} {
		if r.cq.Entries() != want || r.dev.Entries() != want+1 {
			t.Fatalf("Entries() = %d, of the device %d, want %d and %d", r.cq.Entries(), r.dev.Entries(), want, want+1)
		}
		for i := range uint64(5) {
			r.put(q.sendCQE(q.sendPosted(i, 0), opcodeSend))
		}
		if wcs := r.poll(); len(wcs) != 5 || wcs[4].ID != 4 {
			t.Errorf("completions = %+v, want 5, the last with ID 4", wcs)
		}
		if err := r.cq.Resize(200000); err != nil {
			t.Fatalf("CQ.Resize(200000): %v", err)
		}
	}
}

func TestCQOptions(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	_, dev := r.newCQ(provider.CQConfig{Entries: 1, Vendor: &CQOptions{EntrySize: 128, Padded: true, Compression: CompressChecksum}})
	if c := dev.Create; c.CQESize != 128 || c.Flags&1 == 0 || c.CQECompEn != 1 || c.CQECompResFormat != 2 {
		t.Errorf("CREATE_CQ with options = %+v, want padded 128 bytes with checksums", c)
	}
	_, dev = r.newCQ(provider.CQConfig{Entries: 1})
	if c := dev.Create; c.CQESize != 64 || c.Flags != 2 || c.CQECompEn != 0 {
		t.Errorf("CREATE_CQ without options = %+v, want 64 bytes without compression", c)
	}
	for _, c := range []caps{{}, {realTimeTS: true}} {
		r.ctx.caps = c
		for _, opt := range []CQOptions{{EntrySize: 128, Padded: true}, {Compression: CompressHash}, {EntrySize: 128, Compression: CompressHash}, {RealTime: !c.realTimeTS}} {
			if opt == (CQOptions{}) {
				continue
			}
			if _, err := opt.check(&c); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%+v of %+v: CQOptions.check: error = %v, want errors.ErrUnsupported", opt, c, err)
			}
		}
	}
}

// TestRegisterPages checks the register page in CREATE_CQ. A page number of up to 16 bits is in
// the command, a larger one is in a separate attribute.
func TestRegisterPages(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	if p := r.dev.Create; p.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX == 0 || uint32(p.UARPageIndex) != r.ctx.uars.plain.page {
		t.Errorf("CREATE_CQ = %+v, want page %#x", p, r.ctx.uars.plain.page)
	}
	for _, page := range []uint32{0xffff, 0x10000, 0x123456} {
		r.ctx.uars.plain.page = page
		refused := errors.New("recorded")
		r.before = func(req *uverbs.Request) error {
			cmd := abi.View[abi.Mlx5CreateCQ](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf)
			got := uint32(cmd.UARPageIndex)
			if a := req.Find(abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX); a != nil {
				if cmd.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0 || cmd.UARPageIndex != 0 {
					t.Errorf("page %#x: CREATE_CQ = %+v, want the page only in the attribute", page, cmd)
				}
				got = *abi.View[uint32](a.Buf)
			} else if cmd.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX == 0 {
				t.Errorf("page %#x: CREATE_CQ = %+v, want the page in the command or in the attribute", page, cmd)
			}
			if got != page {
				t.Errorf("page of CREATE_CQ = %#x, want %#x", got, page)
			}
			return refused
		}
		if _, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 1}); !errors.Is(err, refused) {
			t.Errorf("Context.CreateCQ: error = %v, want %v", err, refused)
		}
		r.before = nil
	}
	legacy := &cqRig{t: t, k: mlx5test.New("mlx5_0")}
	legacy.k.LegacyUAR = true
	legacy.open(provider.CQConfig{})
	if c := legacy.dev.Create; c.Flags != 0 || c.UARPageIndex != 0 {
		t.Errorf("CREATE_CQ on a kernel that assigns pages = %+v, want no page", c)
	}
	if err := legacy.cq.Arm(false); err != nil {
		t.Errorf("CQ.Arm(false): %v", err)
	}
}

func TestClosedCQ(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	r.put(q.sendCQE(q.sendPosted(1, 0), opcodeSend))
	if err := r.cq.Close(); err != nil {
		t.Fatalf("CQ.Close: %v", err)
	}
	n, err := r.cq.Poll(make([]provider.WC, 4))
	if n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("CQ.Poll = %d, %v, want 0, net.ErrClosed", n, err)
	}
	if _, err := r.cq.PollExtended(make([]Completion, 4)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CQ.PollExtended: error = %v, want net.ErrClosed", err)
	}
	if err := r.cq.Arm(false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CQ.Arm(false) = %v, want net.ErrClosed", err)
	}
	if err := r.cq.Resize(100); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CQ.Resize(100) = %v, want net.ErrClosed", err)
	}
	r.cq.purgeQP(q)
	if err := r.cq.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestClosedFile(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	r.f.Close()
	if _, err := r.cq.Poll(make([]provider.WC, 4)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CQ.Poll: error = %v, want net.ErrClosed", err)
	}
	if err := r.cq.Arm(false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CQ.Arm(false) = %v, want net.ErrClosed", err)
	}
}
