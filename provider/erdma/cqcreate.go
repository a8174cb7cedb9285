// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/uverbs"
)

// Bounds of the number of entries. liberdma makes no smaller CQ. The largest one keeps the consumer
// index of the doorbell unambiguous.
const (
	minCQLog = 6
	maxCQLog = 23
)

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	if cfg.Vendor != nil {
		return nil, fmt.Errorf("erdma: options of type %T: %w", cfg.Vendor, syscall.EINVAL)
	}
	if cfg.Entries < 1 || cfg.Entries > 1<<maxCQLog {
		return nil, fmt.Errorf("erdma: completion queue of %d entries, at most %d: %w", cfg.Entries, 1<<maxCQLog, syscall.EINVAL)
	}
	q := &cq{ctx: c, wake: cfg.Wake, log: max(log2ceil(cfg.Entries), minCQLog)}
	if err := q.create(cfg); err != nil {
		return nil, errors.Join(err, q.free())
	}
	q.leak = leak.Track("erdma CQ", c.File.Info().Name)
	return q, nil
}

func (c *cq) create(cfg *provider.CQConfig) (err error) {
	c.entries, c.mask = 1<<c.log, 1<<c.log-1
	size := pages(c.entries * blockSize)
	if c.region, err = mem.Alloc(size); err != nil {
		return fmt.Errorf("erdma: completion queue of %d bytes: %w", size, err)
	}
	c.ring = unsafe.Pointer(unsafe.SliceData(c.region.Bytes()))
	if c.record, err = c.ctx.records.Alloc(c.ctx.pageSize, recordSize); err != nil {
		return fmt.Errorf("erdma: doorbell record: %w", err)
	}
	record := (*uint64)(c.record.Mem())
	cmd := abi.ErdmaUreqCreateCQ{DBRecordVA: abi.NewPointer(record), QbufVA: abi.NewSlicePointer(c.region.Bytes()), QbufLen: uint32(size)}
	var resp abi.ErdmaUrespCreateCQ
	k, err := c.ctx.File.CreateCQ(uverbs.CQConfig{Entries: uint32(c.entries), UserHandle: cfg.UserHandle, Channel: cfg.Channel, Vector: cfg.Vector},
		uverbs.Driver{In: abi.Bytes(&cmd), Out: abi.Bytes(&resp)})
	if err != nil {
		return err
	}
	if uint64(resp.NumCQE) != uint64(c.entries) || resp.CQID >= 1<<24 {
		return errors.Join(unsupported("the kernel made CQ %#x of %d entries instead of %d", resp.CQID, resp.NumCQE, c.entries), c.ctx.File.DestroyCQ(k.Handle))
	}
	c.handle, c.num = k.Handle, resp.CQID
	c.bell = c.ctx.doorbells.compOf(c.num)
	// The adapter expects this value before the first doorbell. It does not read it before that.
	*record = endian.Little64(0xff<<armCount | uint64(c.num)<<armCQ | 3<<armEvents)
	return nil
}

// log2ceil returns the logarithm of the smallest power of two that is at least n, which is positive.
func log2ceil(n int) uint8 { return uint8(bits.Len(uint(n - 1))) }

// pages rounds a size of a queue up to the pages that the adapter counts in.
func pages(size int) int { return (size + 4095) &^ 4095 }
