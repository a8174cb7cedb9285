// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// CQOptions holds the options of mlx5 for a CQ. It is the value of the field Vendor of
// provider.CQConfig (struct mlx5dv_cq_init_attr of mlx5dv_create_cq(3)).
type CQOptions struct {
	// EntrySize is the size of a CQE, bytes: 64, which 0 means, or 128. In one of 128
	// the device can bring 64 bytes of data, in one of 64 it can bring 32.
	EntrySize int
	// Padded has the device write all 128 bytes of a CQE of that size.
	Padded bool
	// Compression has the device compress CQEs; 0 does not. A CQE that was compressed
	// has the timestamp of the first of its group.
	Compression CompressionFormat
	// IgnoreOverrun promises that the CQ never overflows. The device then does not check for it.
	IgnoreOverrun bool
	// RealTime makes Completion.Timestamp nanoseconds of the device's wall clock, instead of ticks
	// of its free-running clock. The wall clock is PTP time if it is disciplined.
	RealTime bool
}

// CreateCQ makes a completion queue, a *CQ. cfg.Vendor is nil or *CQOptions.
func (c *Context) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	opt, ok := cfg.Vendor.(*CQOptions)
	if !ok && cfg.Vendor != nil {
		return nil, fmt.Errorf("options of type %T, mlx5 takes %T: %w", cfg.Vendor, opt, syscall.EINVAL)
	}
	if opt == nil {
		opt = &CQOptions{}
	}
	q, err := c.createCQ(cfg, opt)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// maxCQEntries bounds the ring, because the consumer index of the doorbell record has 24 bits.
const maxCQEntries = 1 << 24

// Logarithms of the sizes of a CQE.
const (
	log64  = 6
	log128 = 7
)

// check returns the command's part about the options.
func (o *CQOptions) check(c *caps) (cmd abi.Mlx5CreateCQ, err error) {
	switch o.EntrySize {
	case 0, 64:
		cmd.CQESize = 64
	case 128:
		cmd.CQESize = 128
	default:
		return cmd, fmt.Errorf("completion queue entries of %d bytes: %w", o.EntrySize, syscall.EINVAL)
	}
	if o.Padded {
		if cmd.CQESize != 128 || !c.pad128 {
			return cmd, fmt.Errorf("padding of %d-byte completion queue entries: %w", cmd.CQESize, errors.ErrUnsupported)
		}
		cmd.Flags |= abi.MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD
	}
	switch o.Compression {
	case 0:
	case CompressHash, CompressChecksum, CompressChecksumStride:
		if c.cqeComp.MaxNum == 0 || c.cqeComp.SupportedFormat&uint32(o.Compression) == 0 || cmd.CQESize == 128 && !c.comp128 {
			return cmd, fmt.Errorf("compression %d of %d-byte completion queue entries: %w", o.Compression, cmd.CQESize, errors.ErrUnsupported)
		}
		cmd.CQECompEn, cmd.CQECompResFormat = 1, uint8(o.Compression)
	default:
		return cmd, fmt.Errorf("compression %d: %w", o.Compression, syscall.EINVAL)
	}
	if o.RealTime {
		if !c.realTimeTS {
			return cmd, fmt.Errorf("timestamps in real time: %w", errors.ErrUnsupported)
		}
		cmd.Flags |= abi.MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS
	}
	return cmd, nil
}

func (c *Context) createCQ(cfg *provider.CQConfig, opt *CQOptions) (_ *CQ, err error) {
	cmd, err := opt.check(&c.caps)
	if err != nil {
		return nil, err
	}
	log, err := cqLog(cfg.Entries)
	if err != nil {
		return nil, err
	}
	ethernet, err := c.ethernet()
	if err != nil {
		// The CQ would decode fields of InfiniBand from completions on Ethernet, or the reverse.
		return nil, fmt.Errorf("query link layer: %w", err)
	}
	q := &CQ{ctx: c, unlocked: cfg.Unlocked, index: noIndex, compression: opt.Compression, wake: cfg.Wake, ethernet: ethernet}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.free())
		}
	}()
	if q.region, err = newCQRing(log, log2ceil(int(cmd.CQESize))); err != nil {
		return nil, err
	}
	q.use(q.region, log, log2ceil(int(cmd.CQESize)))
	if q.db, err = c.allocDB(); err != nil {
		return nil, err
	}
	q.bell = &q.db.rec[cqConsumer]
	cmd.BufAddr, cmd.DBAddr = abi.NewPointer(unsafe.SliceData(q.region.Bytes())), q.db.kernel()
	var resp abi.Mlx5CreateCQResp
	drv := uverbs.Driver{In: abi.Bytes(&cmd), Out: abi.Bytes(&resp)}
	switch page, ok := c.uars.cqPage(); {
	case ok && page < 1<<16:
		cmd.Flags |= abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX
		cmd.UARPageIndex = uint16(page)
	case ok:
		drv.Attrs = []uverbs.Attr{{ID: abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, Kind: uverbs.AttrIn, Buf: abi.Bytes(&page)}}
	}
	kcfg := uverbs.CQConfig{Entries: uint32(q.entries), UserHandle: cfg.UserHandle, Channel: cfg.Channel, Vector: cfg.Vector}
	if opt.IgnoreOverrun {
		kcfg.Flags |= abi.IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN
	}
	k, err := c.file.CreateCQ(kcfg, drv)
	if err != nil {
		return nil, err
	}
	if int64(k.Entries) != int64(q.entries) {
		return nil, errors.Join(unsupported("the kernel made a CQ of %d entries out of one of %d", k.Entries, q.entries), c.file.DestroyCQ(k.Handle))
	}
	q.handle, q.num = k.Handle, resp.CQN
	q.record()
	q.leak = leak.Track("mlx5 CQ", c.file.Info().Name)
	return q, nil
}

// cqLog returns the logarithm of the size of a ring for so many completions: one
// more, rounded up to a power of two, as libmlx5 has it.
func cqLog(entries int) (uint8, error) {
	if entries < 1 || entries > maxCQEntries-1 {
		return 0, fmt.Errorf("completion queue of %d entries, mlx5 has at most %d: %w", entries, maxCQEntries-1, syscall.EINVAL)
	}
	return log2ceil(entries + 1), nil
}

// newCQRing makes a ring of entries that the device has not written.
func newCQRing(log, shift uint8) (*mem.Region, error) {
	r, err := mem.Alloc(1 << (log + shift))
	if err != nil {
		return nil, fmt.Errorf("completion queue of %d bytes: %w", 1<<(log+shift), err)
	}
	b := r.Bytes()
	for i := 1<<shift - 1; i < len(b); i += 1 << shift {
		b[i] = cqeInvalid << 4
	}
	return r, nil
}

// use makes r the ring.
func (c *CQ) use(r *mem.Region, log, shift uint8) {
	c.region = r
	c.ring = unsafe.Pointer(&r.Bytes()[1<<shift-cqeSize])
	c.log, c.shift, c.mask = log, shift, 1<<log-1
	c.entries = 1<<log - 1
}

// free frees the memory. The device does not use it any more, and the caller holds the lock.
func (c *CQ) free() error {
	var errs []error
	if c.region != nil {
		errs = append(errs, c.region.Free())
		c.region = nil
	}
	for _, r := range c.left {
		errs = append(errs, r.Free())
	}
	c.left = nil
	if c.db != nil {
		errs = append(errs, c.ctx.freeDB(c.db))
		c.db = nil
	}
	return errors.Join(errs...)
}
