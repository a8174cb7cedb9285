// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"math/bits"
	"syscall"

	"purerdma/provider"
)

// Sizes of segments, bytes.
const (
	controlSize  = segment
	remoteSize   = segment
	atomicSeg    = segment
	xrcSize      = segment
	addressSize  = 3 * segment
	ethernetSize = 2 * segment
	umrSize      = 3*segment + 2*wqebb // control, context, one piece of memory
)

// qpSize is the layout of a QP's queues.
type qpSize struct {
	sqBlocks  int // a power of two; 0: no send queue
	sqPost    int // requests that fit
	sqSGE     int
	sqInline  int // bytes
	rqCount   int // receives, a power of two; 0: no receive queue
	rqShift   int // a slot has 1<<rqShift bytes
	rqSGE     int
	sqBytes   int
	rqBytes   int
	separated bool // the send queue has memory of its own
}

// newQPSize computes the sizes of a QP as libmlx5 does. A slot of the send queue has room for the
// largest operation of the transport, with the requested number of elements or inline bytes. The
// caller gets the excess from rounding.
func newQPSize(c *caps, t transport, cfg *provider.QPConfig) (qpSize, error) {
	var z qpSize
	for _, v := range []int{cfg.Cap.SendWR, cfg.Cap.RecvWR, cfg.Cap.SendSGE, cfg.Cap.RecvSGE, cfg.Cap.Inline, cfg.MaxLSOHeader} {
		if v < 0 || v > maxWQEBB {
			return z, fmt.Errorf("mlx5: QP with %+v: %w", cfg.Cap, syscall.EINVAL)
		}
	}
	if cfg.Cap.SendWR > 0 {
		if err := z.send(c, t, cfg); err != nil {
			return z, err
		}
	}
	if cfg.Cap.RecvWR > 0 && cfg.SRQ == nil {
		if err := z.recv(c, cfg); err != nil {
			return z, err
		}
	}
	z.separated = t == transportRaw
	return z, nil
}

// overhead returns the bytes of the largest operation of a transport without its
// data.
func (t transport) overhead() int {
	switch t {
	case transportUD:
		return controlSize + addressSize
	case transportRaw:
		return controlSize + ethernetSize
	}
	n := controlSize + remoteSize + atomicSeg
	if t == transportDC {
		return n + addressSize // and no memory windows
	}
	n = max(n, controlSize+umrSize)
	if t == transportXRC {
		n += xrcSize
	}
	return n
}

var _ provider.InlineLimiter = (*Context)(nil)

// MaxInline implements provider.InlineLimiter. The transport with the largest overhead, XRC, has the lowest limit.
func (c *Context) MaxInline() int { return max(0, c.caps.maxSQDesc-transportXRC.overhead()-4) }

func (z *qpSize) send(c *caps, t transport, cfg *provider.QPConfig) error {
	overhead := t.overhead()
	size, inline := overhead, 0
	if cfg.Cap.Inline > 0 {
		inline = size + alignUp(4+cfg.Cap.Inline, segment)
	}
	size += alignUp(cfg.MaxLSOHeader, segment) + cfg.Cap.SendSGE*segment
	slot := alignUp(max(size, inline), wqebb)
	if slot > c.maxSQDesc {
		return fmt.Errorf("mlx5: send requests of %d elements or %d inline bytes take %d bytes, at most %d: %w",
			cfg.Cap.SendSGE, cfg.Cap.Inline, slot, c.maxSQDesc, syscall.EINVAL)
	}
	z.sqBytes = pow2(cfg.Cap.SendWR * slot)
	z.sqBlocks = z.sqBytes / wqebb
	if z.sqBlocks > c.maxSendWQEBB {
		return fmt.Errorf("mlx5: %d send requests take %d blocks, at most %d: %w", cfg.Cap.SendWR, z.sqBlocks, c.maxSendWQEBB, syscall.EINVAL)
	}
	z.sqPost = z.sqBytes / slot
	z.sqSGE = cfg.Cap.SendSGE
	z.sqInline = slot - overhead - 4
	return nil
}

func (z *qpSize) recv(c *caps, cfg *provider.QPConfig) error {
	slot := pow2(max(cfg.Cap.RecvSGE, 1) * segment)
	if slot > c.maxRQDesc {
		return fmt.Errorf("mlx5: receives of %d elements take %d bytes, at most %d: %w", cfg.Cap.RecvSGE, slot, c.maxRQDesc, syscall.EINVAL)
	}
	if cfg.Cap.RecvWR > c.maxRecvWR {
		return fmt.Errorf("mlx5: %d receives, at most %d: %w", cfg.Cap.RecvWR, c.maxRecvWR, syscall.EINVAL)
	}
	z.rqBytes = max(pow2(cfg.Cap.RecvWR)*slot, wqebb)
	z.rqCount = z.rqBytes / slot
	z.rqShift = bits.Len(uint(slot - 1))
	z.rqSGE = slot / segment
	return nil
}

// cap returns the capacities for the caller.
func (z *qpSize) cap() provider.QPCap {
	return provider.QPCap{SendWR: z.sqPost, RecvWR: z.rqCount, SendSGE: z.sqSGE, RecvSGE: z.rqSGE, Inline: z.sqInline}
}

func alignUp(n, to int) int { return (n + to - 1) &^ (to - 1) }

// pow2 returns the lowest power of two that is not less than n, which is positive.
func pow2(n int) int { return 1 << bits.Len(uint(n-1)) }
