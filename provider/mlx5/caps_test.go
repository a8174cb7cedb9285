// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"testing"

	"purerdma/abi"
	"purerdma/provider"
)

// leastContext returns the smallest capabilities that the provider accepts.
func leastContext() abi.Mlx5AllocUcontextResp {
	return abi.Mlx5AllocUcontextResp{
		CQEVersion: 1, NumPorts: 1, CacheLineSize: 8, MaxSQDescSz: 64, MaxRQDescSz: 16, MaxSendWQEBB: 1, MaxRecvWR: 1,
		NumUARsPerPage: 1, EthMinInline: abi.MLX5_USER_INLINE_MODE_L2,
	}
}

// TestCapsBounds checks responses that the provider just accepts.
func TestCapsBounds(t *testing.T) {
	for name, change := range map[string]func(*abi.Mlx5AllocUcontextResp){
		"least":            func(*abi.Mlx5AllocUcontextResp) {},
		"BlueFlame of 128": func(r *abi.Mlx5AllocUcontextResp) { r.BFRegSize = 128 },
		"BlueFlame of 512": func(r *abi.Mlx5AllocUcontextResp) { r.BFRegSize = 512 },
		"line of a page":   func(r *abi.Mlx5AllocUcontextResp) { r.CacheLineSize = 4096 },
		"no UARs of 4 KiB": func(r *abi.Mlx5AllocUcontextResp) { r.NumUARsPerPage = 0 },
	} {
		r := leastContext()
		change(&r)
		var c caps
		if err := c.fromContext(&r, 4096); err != nil {
			t.Errorf("%s: caps.fromContext: %v", name, err)
		}
	}
}

// TestCapsBits sets the bits of the responses one by one, and checks that each bit enables its
// feature and no other.
func TestCapsBits(t *testing.T) {
	r := leastContext()
	var least caps
	if err := least.fromContext(&r, 4096); err != nil {
		t.Fatalf("caps.fromContext: %v", err)
	}
	if least.minInline != 18 || least.dumpFillMKey != 0x100 || least.uarsPerPage != 1 || least.maxSQDesc != 64 || least.maxRQDesc != 16 {
		t.Errorf("fromContext = %+v, want the defaults", least)
	}
	for name, tc := range map[string]struct {
		change func(*abi.Mlx5AllocUcontextResp)
		want   func(*caps)
	}{
		"clock information": {func(r *abi.Mlx5AllocUcontextResp) { r.ClockInfoVersions = 1 }, func(c *caps) { c.clockInfo = true }},
		"another version":   {func(r *abi.Mlx5AllocUcontextResp) { r.ClockInfoVersions = 2 }, func(*caps) {}},
		"core clock":        {func(r *abi.Mlx5AllocUcontextResp) { r.CompMask, r.HCACoreClockOffset = 1, 8 }, func(c *caps) { c.coreClock, c.coreClockOff = true, 8 }},
		"dump and fill":     {func(r *abi.Mlx5AllocUcontextResp) { r.CompMask, r.DumpFillMKey = 2, 77 }, func(c *caps) { c.dumpFillMKey = 77 }},
		"no dump and fill":  {func(r *abi.Mlx5AllocUcontextResp) { r.DumpFillMKey = 77 }, func(*caps) {}},
		"ECE":               {func(r *abi.Mlx5AllocUcontextResp) { r.CompMask = 4 }, func(c *caps) { c.ece = true }},
		"real time":         {func(r *abi.Mlx5AllocUcontextResp) { r.CompMask = 16 }, func(c *caps) { c.realTimeTS = true }},
		"query":             {func(r *abi.Mlx5AllocUcontextResp) { r.CmdsSuppUHW = 1 }, func(c *caps) { c.queryDevice = true }},
		"AH":                {func(r *abi.Mlx5AllocUcontextResp) { r.CmdsSuppUHW = 2 }, func(c *caps) { c.createAH = true }},
		"no minimum inline": {func(r *abi.Mlx5AllocUcontextResp) { r.EthMinInline = abi.MLX5_USER_INLINE_MODE_NONE }, func(c *caps) { c.minInline = 0 }},
		"huge queues": {func(r *abi.Mlx5AllocUcontextResp) { r.MaxSendWQEBB, r.MaxRecvWR, r.MaxSRQRecvWR = 1<<31, 1<<31, 1<<31 },
			func(c *caps) { c.maxSendWQEBB, c.maxRecvWR, c.maxSRQWR = 1<<20, 1<<20, 1<<20 }},
	} {
		r, want := leastContext(), least
		tc.change(&r)
		tc.want(&want)
		var got caps
		if err := got.fromContext(&r, 4096); err != nil || got != want {
			t.Errorf("%s: fromContext = %+v, %v, want %+v, nil", name, got, err, want)
		}
	}
	for bit, want := range map[uint32]caps{1: {comp128: true}, 2: {pad128: true}, 8: {scat2DCT: true}} {
		var got caps
		got.fromDevice(&abi.UverbsExQueryDeviceResp{}, &abi.Mlx5QueryDeviceResp{Flags: bit})
		if got != want {
			t.Errorf("fromDevice of flag %d = %+v, want %+v", bit, got, want)
		}
	}
}

// TestCQLog checks that sizes of completion queues are rounded up, to at most the largest size.
func TestCQLog(t *testing.T) {
	for entries, want := range map[int]uint8{1: 1, 2: 2, 3: 2, 4: 3, 63: 6, 64: 7, 1<<24 - 2: 24, 1<<24 - 1: 24} {
		if got, err := cqLog(entries); got != want || err != nil {
			t.Errorf("cqLog(%d) = %d, %v, want %d, nil", entries, got, err, want)
		}
	}
	for _, entries := range []int{-1, 0, 1 << 24, 1<<31 - 1} {
		if _, err := cqLog(entries); err == nil {
			t.Errorf("cqLog(%d) succeeded", entries)
		}
	}
}

// TestLargestWQE fills the largest send queue entry of the device.
func TestLargestWQE(t *testing.T) {
	c := caps{maxSQDesc: 1024, maxRQDesc: 512, maxSendWQEBB: 32768, maxRecvWR: 32768}
	for sge, ok := range map[int]bool{52: true, 53: false} { // 192 for a bind, and 16 for each element
		_, err := newQPSize(&c, transportConnected, &provider.QPConfig{Cap: provider.QPCap{SendWR: 1, SendSGE: sge}})
		if (err == nil) != ok {
			t.Errorf("newQPSize with %d elements = %v, want success %v", sge, err, ok)
		}
	}
}

// TestCQELayout compares the fields of completions with the layout of the PRM, not with the
// package's own layout.
func TestCQELayout(t *testing.T) {
	for name, f := range map[string][2]int{
		"rx_hash_result": {cqeHash, 12}, "ml_path": {cqeMLPath, 17}, "slid": {cqeSLID, 22}, "flags_rqpn": {cqeFlagsRQPN, 24},
		"hds_ip_ext": {cqeCsumOK, 28}, "l4_hdr_type_etc": {cqeL3Type, 29}, "vlan_info": {cqeVLAN, 30}, "srqn_uidx": {cqeUIdx, 32},
		"imm_inval_pkey": {cqeImm, 36}, "app": {cqeApp, 40}, "byte_cnt": {cqeByteCount, 44}, "timestamp": {cqeTimestamp, 48},
		"vendor_err_synd": {cqeVendorErr, 54}, "syndrome": {cqeSyndrome, 55}, "sop_drop_qpn": {cqeOpQPN, 56}, "wqe_counter": {cqeLast, 60},
	} {
		if f[0] != f[1] {
			t.Errorf("%s at %d, want %d", name, f[0], f[1])
		}
	}
}

// TestNoData checks that requests without data get no room for data.
func TestNoData(t *testing.T) {
	c := caps{maxSQDesc: 1024, maxRQDesc: 512, maxSendWQEBB: 32768, maxRecvWR: 32768}
	z, err := newQPSize(&c, transportConnected, &provider.QPConfig{Cap: provider.QPCap{SendWR: 5}})
	if err != nil || z.sqBlocks != 16 { // three blocks each
		t.Errorf("newQPSize = %d blocks, %v, want 16, nil", z.sqBlocks, err)
	}
}

// TestFeatures checks the features that depend on the response to QUERY_DEVICE.
func TestFeatures(t *testing.T) {
	least := provider.Features{UC: true, UD: true, Immediate: true}
	windows1, windows2, xrc, atomics := least, least, least, least
	windows1.MWType1, xrc.XRC, atomics.Atomics = true, true, true
	windows2.MWType2, windows2.LocalInv, windows2.SendInvMW, windows2.ReportsInv = true, true, true, true
	for _, tc := range []struct {
		c    caps
		want provider.Features
	}{
		{caps{}, least},
		{caps{flags: abi.IB_UVERBS_DEVICE_MEM_WINDOW}, windows1},
		{caps{flags: abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B}, windows2},
		{caps{flags: abi.IB_UVERBS_DEVICE_XRC}, xrc},
		{caps{atomics: true}, atomics},
	} {
		if got := tc.c.features(); got != tc.want {
			t.Errorf("flags %#x, atomics %v: features() = %+v, want %+v", tc.c.flags, tc.c.atomics, got, tc.want)
		}
	}
}
