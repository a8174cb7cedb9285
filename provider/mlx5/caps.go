// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"math/bits"

	"purerdma/abi"
	"purerdma/provider"
)

// cqeVersion is the layout of completions that this package reads: version 1, in
// which they name their queue by the user index. All devices since Connect-IB have
// it.
const cqeVersion = 1

// invalidLKey is a key that no memory region has.
const invalidLKey = 0x100

// caps lists the capabilities of a device.
type caps struct {
	bfRegSize    uintptr // bytes of a BlueFlame register, two buffers. 0 if there is none.
	cacheLine    int     // bytes from one doorbell record to the next
	maxSQDesc    int     // bytes of a WQE of a send queue
	maxRQDesc    int     // bytes of a WQE of a receive queue.
	maxSendWQEBB int     // basic blocks of a send queue
	maxRecvWR    int     // receives of a QP
	maxSRQWR     int     // receives of an SRQ
	ports        int
	uarsPerPage  int
	minInline    int    // bytes of a packet that must be in the WQE, on raw packet QPs.
	dumpFillMKey uint32 // a key whose memory takes everything and keeps nothing.
	clockInfo    bool   // the kernel maps a page to turn timestamps into time
	coreClock    bool   // the kernel maps the device's clock.
	coreClockOff uint64 // offset of the clock in its page
	ece          bool   // enhanced connection establishment
	realTimeTS   bool   // CQs can give timestamps in real time
	queryDevice  bool   // QUERY_DEVICE has an answer of the driver
	createAH     bool   // CREATE_AH answers with the MAC address

	flags    uint64 // IB_UVERBS_DEVICE_...
	atomics  bool
	tso      abi.Mlx5TSOCaps
	hashes   abi.Mlx5RSSCaps
	pacing   abi.Mlx5PacketPacingCaps
	cqeComp  abi.Mlx5CQECompCaps
	streams  abi.Mlx5DCIStreamsCaps
	comp128  bool // completions of 128 bytes can be compressed
	pad128   bool // completions can be padded to 128 bytes
	scat2DCT bool // a DCT's completions can carry data
}

// fromContext reads the kernel's response to GET_CONTEXT, and refuses values that this package does
// not support.
func (c *caps) fromContext(r *abi.Mlx5AllocUcontextResp, pageSize int) error {
	switch {
	case r.CQEVersion != cqeVersion:
		return unsupported("the device's completions are of version %d, not %d", r.CQEVersion, cqeVersion)
	case r.NumPorts == 0:
		return unsupported("a device without ports")
	case r.BFRegSize != 0 && (bits.OnesCount32(r.BFRegSize) != 1 || r.BFRegSize < 2*wqebb || r.BFRegSize > uarSize/8):
		return unsupported("BlueFlame registers of %d bytes", r.BFRegSize)
	case bits.OnesCount32(r.CacheLineSize) != 1 || r.CacheLineSize < 8 || int(r.CacheLineSize) > pageSize:
		return unsupported("cache lines of %d bytes", r.CacheLineSize)
	case r.MaxSQDescSz < wqebb || r.MaxRQDescSz < segment || r.MaxSendWQEBB == 0 || r.MaxRecvWR == 0:
		return unsupported("work queues of %d blocks and %d receives, with entries of %d and %d bytes",
			r.MaxSendWQEBB, r.MaxRecvWR, r.MaxSQDescSz, r.MaxRQDescSz)
	}
	*c = caps{
		bfRegSize:    uintptr(r.BFRegSize),
		cacheLine:    int(r.CacheLineSize),
		maxSQDesc:    widestWQE(r.MaxSQDescSz),
		maxRQDesc:    int(r.MaxRQDescSz),
		maxSendWQEBB: int(min(r.MaxSendWQEBB, maxWQEBB)),
		maxRecvWR:    int(min(r.MaxRecvWR, maxWQEBB)),
		maxSRQWR:     int(min(r.MaxSRQRecvWR, maxWQEBB)),
		ports:        int(r.NumPorts),
		uarsPerPage:  1,
		minInline:    ethL2Header,
		dumpFillMKey: invalidLKey,
		clockInfo:    r.ClockInfoVersions&(1<<abi.MLX5_IB_CLOCK_INFO_V1) != 0,
		coreClock:    r.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET != 0,
		coreClockOff: r.HCACoreClockOffset,
		ece:          r.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE != 0,
		realTimeTS:   r.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS != 0,
		queryDevice:  r.CmdsSuppUHW&abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE != 0,
		createAH:     r.CmdsSuppUHW&abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH != 0,
	}
	if r.EthMinInline == abi.MLX5_USER_INLINE_MODE_NONE {
		c.minInline = 0
	}
	if r.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY != 0 {
		c.dumpFillMKey = r.DumpFillMKey
	}
	if r.LogUARSize != 0 || r.NumUARsPerPage != 0 {
		// If pages are larger than 4 KiB, the kernel still counts UARs of 4 KiB.
		if r.NumUARsPerPage == 0 || int(r.NumUARsPerPage) > pageSize/uarSize {
			return unsupported("%d UARs in a page of %d bytes", r.NumUARsPerPage, pageSize)
		}
		c.uarsPerPage = int(r.NumUARsPerPage)
	}
	return nil
}

// maxWQEBB bounds the blocks, and also the receives, of a queue on any device. It also bounds the
// sizes that are computed from them.
const maxWQEBB = 1 << 20

// features returns what verbs has names for.
func (c *caps) features() provider.Features {
	has := func(capability uint64) bool { return c.flags&capability != 0 }
	windows2 := has(abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A | abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B)
	return provider.Features{
		UC:         true,
		UD:         true,
		XRC:        has(abi.IB_UVERBS_DEVICE_XRC),
		Immediate:  true,
		Atomics:    c.atomics,
		MWType1:    has(abi.IB_UVERBS_DEVICE_MEM_WINDOW),
		MWType2:    windows2,
		LocalInv:   windows2,
		SendInvMW:  windows2,
		ReportsInv: windows2,
	}
}

// fromDevice reads the response to QUERY_DEVICE. The bytes beyond the length in the driver's
// response are zeros.
func (c *caps) fromDevice(attr *abi.UverbsExQueryDeviceResp, r *abi.Mlx5QueryDeviceResp) {
	c.flags = uint64(attr.Base.DeviceCapFlags) | attr.DeviceCapFlagsEx
	c.atomics = attr.Base.AtomicCap != 0
	c.tso, c.hashes, c.pacing = r.TSOCaps, r.RSSCaps, r.PacketPacingCaps
	c.cqeComp = r.CQECompCaps
	c.streams = r.DCIStreamsCaps
	c.comp128 = r.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP != 0
	c.pad128 = r.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD != 0
	c.scat2DCT = r.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT != 0
}

// widestWQE returns the usable bytes of a WQE of a send queue. The device takes 64 segments, but
// its 6-bit size field counts only 63 of them.
func widestWQE(bytes uint16) int { return int(min(bytes, 64*segment)) }
