// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"math"
	"syscall"
	"testing"

	"purerdma/provider"
)

// sizeCaps holds the capabilities of a ConnectX-5.
var sizeCaps = caps{maxSQDesc: 1024, maxRQDesc: 512, maxSendWQEBB: 32768, maxRecvWR: 32768}

func TestQPSize(t *testing.T) {
	for _, tc := range []struct {
		name   string
		t      transport
		cap    provider.QPCap
		header int
		want   provider.QPCap
		blocks int
		shift  int
	}{
		// The result of libmlx5 for these sizes: see test/oracle.
		{name: "RC", t: transportConnected, cap: provider.QPCap{SendWR: 16, RecvWR: 16, SendSGE: 4, RecvSGE: 3, Inline: 200},
			want: provider.QPCap{SendWR: 18, RecvWR: 16, SendSGE: 4, RecvSGE: 4, Inline: 252}, blocks: 128, shift: 6},
		// 192 for a bind and 16 for one element are 208 bytes, which take four blocks.
		{name: "Small", t: transportConnected, cap: provider.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1},
			want: provider.QPCap{SendWR: 1, RecvWR: 4, SendSGE: 1, RecvSGE: 1, Inline: 60}, blocks: 4, shift: 4},
		// 64 for control and address and 16 for an element take two blocks.
		{name: "UD", t: transportUD, cap: provider.QPCap{SendWR: 5, RecvWR: 5, SendSGE: 1, RecvSGE: 2},
			want: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 2, Inline: 60}, blocks: 16, shift: 5},
		// 48 for control and Ethernet, 64 for the header and 32 for elements take three blocks.
		{name: "Raw", t: transportRaw, cap: provider.QPCap{SendWR: 4, SendSGE: 2}, header: 60,
			want: provider.QPCap{SendWR: 5, SendSGE: 2, Inline: 140}, blocks: 16},
		// 192, 16 for the SRQ and 48 for elements take four blocks.
		{name: "XRC", t: transportXRC, cap: provider.QPCap{SendWR: 3, SendSGE: 3},
			want: provider.QPCap{SendWR: 4, SendSGE: 3, Inline: 44}, blocks: 16},
		// 64 for control and address, 32 for an atomic and 16 for an element take two blocks.
		{name: "DC", t: transportDC, cap: provider.QPCap{SendWR: 3, SendSGE: 1},
			want: provider.QPCap{SendWR: 4, SendSGE: 1, Inline: 28}, blocks: 8},
		{name: "Nothing", t: transportConnected, cap: provider.QPCap{SendSGE: 1, RecvSGE: 1}},
		{name: "Most", t: transportConnected, cap: provider.QPCap{SendWR: 8192, RecvWR: 32768, SendSGE: 4, RecvSGE: 32},
			want: provider.QPCap{SendWR: 8192, RecvWR: 32768, SendSGE: 4, RecvSGE: 32, Inline: 60}, blocks: 32768, shift: 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			z, err := newQPSize(&sizeCaps, tc.t, &provider.QPConfig{Cap: tc.cap, MaxLSOHeader: tc.header})
			if err != nil {
				t.Fatalf("newQPSize: %v", err)
			}
			if z.cap() != tc.want || z.sqBlocks != tc.blocks || z.rqShift != tc.shift {
				t.Errorf("newQPSize = %+v, %d blocks, slots of 2^%d bytes, want %+v, %d, %d", z.cap(), z.sqBlocks, z.rqShift, tc.want, tc.blocks, tc.shift)
			}
		})
	}
}

func TestQPSizeRefused(t *testing.T) {
	for _, cap := range []provider.QPCap{
		{SendWR: -1}, {RecvWR: -1}, {SendWR: 1, SendSGE: -1}, {RecvWR: 1, RecvSGE: -1}, {SendWR: 1, Inline: -1},
		{SendWR: math.MaxInt}, {RecvWR: math.MaxInt}, {SendWR: 1, SendSGE: math.MaxInt}, {SendWR: 1, Inline: math.MaxInt},
		{SendWR: 8193, SendSGE: 4}, // 8,192 of 256 bytes are 32,768 blocks
		{SendWR: 1, SendSGE: 53},   // 192 + 53 * 16 is more than 1,024
		{SendWR: 1, Inline: 1024 - 192 - 3},
		{RecvWR: 1, RecvSGE: 33},
		{RecvWR: 32769, RecvSGE: 1},
	} {
		if _, err := newQPSize(&sizeCaps, transportConnected, &provider.QPConfig{Cap: cap}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: newQPSize: error = %v, want EINVAL", cap, err)
		}
	}
}
