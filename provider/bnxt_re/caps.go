// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"purerdma/abi"
	"purerdma/provider"
)

// caps lists the features and limits of a device.
type caps struct {
	p5       bool   // The chip is of generation P5 or P7.
	variable bool   // Requests have a variable size.
	msn      bool   // The search table of a send queue is indexed by the number of the message.
	anySize  bool   // The number of entries of a queue need not be a power of two.
	paced    bool   // The kernel reports the load of the doorbells.
	push     bool   // The context can have a page for pushing requests.
	rates    bool   // The rate of a QP can be limited.
	maxCQE   uint32 // entries of a completion queue

	atomics   bool
	maxSGE    int // elements of a request and of a receive
	maxQPWR   int
	maxSRQWR  int
	maxSRQSGE int
	packets   provider.PacketCaps
}

// Bounds of the limits that this package accepts. A request has at most 255 slots, and the index in a doorbell has
// 24 bits.
const (
	maxElements = 128
	maxRequests = 1 << 20
	maxEntries  = 1<<24 - 1
)

// fromContext reads the kernel's response to GET_CONTEXT, and refuses values that this package does not support.
func (c *caps) fromContext(r *abi.BnxtReUctxResp, pageSize int) error {
	has := func(bit uint64) bool { return r.CompMask&bit != 0 }
	switch {
	case r.CQESz != cqeSize:
		return unsupported("completions of %d bytes", r.CQESz)
	case uint64(r.PgSize) != uint64(pageSize):
		return unsupported("pages of %d bytes, the process has %d", r.PgSize, pageSize)
	case r.MaxCQD == 0 || r.MaxCQD > maxEntries:
		return unsupported("completion queues of %d entries", r.MaxCQD)
	}
	if has(abi.BNXT_RE_UCNTX_CMASK_HAVE_CCTX) {
		c.p5 = isP5(uint16(r.ChipID0))
	}
	if has(abi.BNXT_RE_UCNTX_CMASK_HAVE_MODE) {
		switch r.Mode {
		case abi.BNXT_QPLIB_WQE_MODE_STATIC:
		case abi.BNXT_QPLIB_WQE_MODE_VARIABLE:
			c.variable = true
		default:
			return unsupported("requests of mode %d", r.Mode)
		}
	}
	c.maxCQE = r.MaxCQD
	c.push = has(abi.BNXT_RE_UCNTX_CMASK_WC_DPI_ENABLED)
	c.paced = has(abi.BNXT_RE_UCNTX_CMASK_DBR_PACING_ENABLED)
	c.anySize = has(abi.BNXT_RE_UCNTX_CMASK_POW2_DISABLED)
	c.msn = has(abi.BNXT_RE_UCNTX_CMASK_MSN_TABLE_ENABLED)
	c.rates = has(abi.BNXT_RE_UCNTX_CMASK_QP_RATE_LIMIT_ENABLED)
	return nil
}

// isP5 reports whether a chip is of generation P5 or P7.
func isP5(chip uint16) bool {
	switch chip {
	case 0x1750, 0x1751, 0x1752, // BCM57508, BCM57504, BCM57502
		0xd818, 0x1760: // BCM58818, BCM57608
		return true
	}
	return false
}

// fromDevice reads the attributes of the device.
func (c *caps) fromDevice(r *abi.UverbsExQueryDeviceResp, p *abi.BnxtReQueryDeviceExResp) error {
	b := &r.Base
	if b.MaxSGE == 0 || b.MaxQPWR == 0 {
		return unsupported("a device with %d elements and %d requests", b.MaxSGE, b.MaxQPWR)
	}
	c.atomics = b.AtomicCap != 0
	c.maxSGE = int(min(b.MaxSGE, maxElements))
	if !c.variable {
		c.maxSGE = min(c.maxSGE, staticSGE)
	}
	c.maxQPWR = int(min(b.MaxQPWR, maxRequests))
	c.maxSRQWR = int(min(b.MaxSRQWR, maxRequests))
	c.maxSRQSGE = int(min(b.MaxSRQSGE, srqSGE))
	if pacing := &p.PacketPacingCaps; c.rates {
		c.packets = provider.PacketCaps{RateMin: pacing.QPRateLimitMin, RateMax: pacing.QPRateLimitMax, RateQPTypes: pacing.SupportedQPTs}
	}
	return nil
}

// depth returns the number of entries of a queue that has at least n, of at most limit. The kernel's driver computes the
// same number. libbnxt_re of rdma-core 65 exceeds the limit, and its queues of that size do not work.
func (c *caps) depth(n, limit int) int {
	if c.anySize {
		return n
	}
	return min(roundUp(n), limit)
}
