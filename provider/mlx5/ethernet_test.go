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

// TestReceiveOnEthernet polls RoCE datagrams with both decoders. Their CQEs have the version of
// RoCE in the field of InfiniBand's service level.
func TestReceiveOnEthernet(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rocev  uint8 // in the bits of the service level
		tagged bool
		tci    uint16 // tag of the VLAN
		want   uint8
	}{
		{"v1", 0, false, 0, 0},
		{"v2 on IPv6", 1, false, 0, 0},
		{"v2 on IPv4", 2, false, 0, 0},
		{"VLAN of priority 5", 2, true, 5<<13 | 100, 5},
		{"no VLAN, old tag", 2, false, 5<<13 | 100, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newCQRig(t, provider.CQConfig{})
			q := r.qp(provider.UD, nil)
			for i := range uint64(3) { // first one in the general loop, the others in the fast one
				e := mlx5test.CQE{Opcode: mlx5test.CQERespSend, UserIndex: q.index, WQECounter: q.recvPosted(t, i),
					GRH: 1, SrcQPN: 0x123, SLID: 0xbeef, SL: tc.rocev, PathBits: 0x55}
				b := e.Bytes(64)
				if tc.tagged {
					b[cqeL3Type] |= vlanPresent
				}
				b[cqeVLAN], b[cqeVLAN+1] = byte(tc.tci>>8), byte(tc.tci)
				if !r.dev.Complete(b) {
					t.Fatal("Complete: the CQ is full")
				}
			}
			wcs := r.poll()
			if len(wcs) != 3 {
				t.Fatalf("Poll() = %d completions, want 3", len(wcs))
			}
			for i, got := range wcs {
				want := provider.WC{ID: uint64(i), Opcode: provider.WCRecv, QPNum: q.num, Flags: provider.WCGRH, SrcQP: 0x123, SL: tc.want}
				if got != want {
					t.Errorf("completion = %+v, want %+v", got, want)
				}
			}
		})
	}
}

// TestLinkOfCQ checks that CQs of an InfiniBand device decode InfiniBand's fields.
func TestLinkOfCQ(t *testing.T) {
	for _, layer := range []uint8{1, linkEthernet} {
		k := mlx5test.New("mlx5_0")
		k.Device = func(_ *abi.UverbsExQueryDeviceResp, _ *abi.Mlx5QueryDeviceResp, port *abi.UverbsQueryPortResp) {
			port.LinkLayer = layer
		}
		r := &cqRig{t: t, k: k}
		r.open(provider.CQConfig{})
		if got, want := r.cq.ethernet, layer == linkEthernet; got != want {
			t.Errorf("link layer %d: ethernet = %v, want %v", layer, got, want)
		}
	}
}

// TestLinkUnknown creates a CQ while the device's port cannot be queried, and afterwards. The
// layout of a completion depends on the link layer, so there is no CQ before it is known.
func TestLinkUnknown(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	r.ctx.ports = nil
	r.before = func(req *uverbs.Request) error {
		if req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_QUERY_PORT {
			return syscall.EIO
		}
		return nil
	}
	if q, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 15}); q != nil || !errors.Is(err, syscall.EIO) {
		t.Errorf("CreateCQ while the port cannot be queried = %v, %v, want EIO", q, err)
	}
	r.before = nil
	if q, _ := r.newCQ(provider.CQConfig{Entries: 15}); !q.ethernet {
		t.Error("the CQ of an Ethernet device decodes completions of InfiniBand")
	}
}
