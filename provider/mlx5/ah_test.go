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

// TestAddressVector compares address vectors with bytes that were derived from the PRM.
// test/oracle compares them with libmlx5's bytes.
func TestAddressVector(t *testing.T) {
	gid := provider.GID{0: 0xfe, 1: 0x80, 8: 1, 15: 0xff}
	grh := provider.GlobalRoute{DGID: gid, FlowLabel: 0xabcde, SGIDIndex: 3, HopLimit: 64, TrafficClass: 0x20}
	for name, tc := range map[string]struct {
		got  addressVector
		want addressVector
	}{
		"IB": {ibAddress(&provider.AHAttr{DLID: 0x1234, SL: 9, SrcPathBits: 0x85, StaticRate: 3}),
			addressVector{1: 0x89_05_1234}},
		"IBGlobal": {ibAddress(&provider.AHAttr{Global: true, GRH: grh, DLID: 1}),
			addressVector{0, 1, 0, 0x0000_20_40_403abcde, 0xfe80_0000_0000_0000, 0x0100_0000_0000_00ff}},
		"RoCE": {roceAddress(&provider.AHAttr{Global: true, GRH: grh, SL: 0xd, StaticRate: 3}, [6]uint8{1, 2, 3, 4, 5, 6}, 0xc123),
			addressVector{0, 0x8a_00_c123, 0x01020304, 0x0506_20_40_003abcde, 0xfe80_0000_0000_0000, 0x0100_0000_0000_00ff}},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: address vector = %#x, want\n%#x", name, tc.got, tc.want)
		}
	}
}

func TestSourcePort(t *testing.T) {
	for _, tc := range []struct {
		flow uint32
		want uint16
	}{{1, 0xc001}, {0x3fff, 0xffff}, {0x4000, 0xc001}, {0xfffff, 0xffc0}, {0xabcde, 0xfcf4}, {0xf00001, 0xc001}} {
		if got := sourcePort(tc.flow); got != tc.want {
			t.Errorf("sourcePort(%#x) = %#x, want %#x", tc.flow, got, tc.want)
		}
	}
	seen := make(map[uint16]bool)
	for range 100 {
		p := sourcePort(0)
		if p < 0xc000 {
			t.Fatalf("sourcePort(0) = %#x, want at least 0xc000", p)
		}
		seen[p] = true
	}
	if len(seen) < 50 {
		t.Errorf("sourcePort(0) returned %d different ports in 100 calls, want at least 50", len(seen))
	}
}

func TestRates(t *testing.T) {
	for rate, want := range map[uint8]uint8{0: 0, 1: 0, 2: 7, 5: 10, 10: 15, 14: 0, 16: 15, 20: 13, 21: 0, 255: 0} {
		if got := rateCode(rate); got != want {
			t.Errorf("rateCode(%d) = %d, want %d", rate, got, want)
		}
	}
}

// TestAHRefused checks the errors of invalid attributes, and of kernels without the needed
// features.
func TestAHRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*mlx5test.Kernel)
		attr   provider.AHAttr
		want   error
	}{
		{"Port0", nil, provider.AHAttr{Global: true}, syscall.EINVAL},
		{"Port2", nil, provider.AHAttr{Global: true, Port: 2}, syscall.EINVAL},
		{"NotGlobal", nil, provider.AHAttr{Port: 1}, syscall.EINVAL},
		{"NoGID", nil, provider.AHAttr{Port: 1, Global: true, GRH: provider.GlobalRoute{SGIDIndex: 200}}, nil},
		{"OldKernel", func(k *mlx5test.Kernel) {
			k.Context = func(_ *abi.Mlx5AllocUcontextReqV2, r *abi.Mlx5AllocUcontextResp) {
				r.CmdsSuppUHW &^= abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH
			}
		}, provider.AHAttr{Port: 1, Global: true}, errors.ErrUnsupported},
		{"RoutedIB", func(k *mlx5test.Kernel) {
			k.Device = func(_ *abi.UverbsExQueryDeviceResp, _ *abi.Mlx5QueryDeviceResp, p *abi.UverbsQueryPortResp) {
				p.LinkLayer, p.Flags = 1, abi.IB_UVERBS_QPF_GRH_REQUIRED
			}
		}, provider.AHAttr{Port: 1}, syscall.EINVAL},
		{"Kernel", func(k *mlx5test.Kernel) {
			k.Intercept = func(r *uverbs.Request) error {
				if a := r.Find(abi.UVERBS_ATTR_WRITE_CMD); r.Method == abi.UVERBS_METHOD_INVOKE_WRITE && a != nil && uverbs.Number(a.Buf) == abi.IB_USER_VERBS_CMD_CREATE_AH {
					return syscall.EHOSTUNREACH
				}
				return nil
			}
		}, provider.AHAttr{Port: 1, Global: true}, syscall.EHOSTUNREACH},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newSendRig(t, tc.change)
			_, err := r.ctx.CreateAH(&provider.AHConfig{PD: r.pd, Attr: tc.attr})
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("CreateAH = %v, want %v", err, tc.want)
			}
		})
	}
}

// TestIBAddress checks an address on InfiniBand, where the kernel takes no part.
func TestIBAddress(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Device = func(_ *abi.UverbsExQueryDeviceResp, _ *abi.Mlx5QueryDeviceResp, p *abi.UverbsQueryPortResp) {
			p.LinkLayer, p.Flags = 1, 0
		}
	})
	a, err := r.ctx.CreateAH(&provider.AHConfig{PD: r.pd, Attr: provider.AHAttr{Port: 1, DLID: 7}})
	if err != nil {
		t.Fatalf("Context.CreateAH: %v", err)
	}
	if got := a.(*ah); got.kernel || got.av != (addressVector{1: 7}) {
		t.Errorf("address handle = %+v, want DLID 7 without the kernel", got)
	}
	if err := a.Close(); err != nil {
		t.Errorf("AH.Close: %v", err)
	}
}
