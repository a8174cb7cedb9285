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
	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/uverbs"
)

// vendor holds the arguments of making a QP that provider.QPConfig lacks.
type vendor struct {
	typ     uint8 // of the kernel
	flags   uint32
	scatter bool // the device may put data into completions
	dci     abi.Mlx5CreateQPDCIStreams
}

// CreateQP makes a queue pair, a *QP, of any type of package provider.
func (c *Context) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	q := newQP(cfg.Type)
	t := transportConnected
	switch cfg.Type {
	case provider.RC:
		q.sq.ops = &connected
	case provider.UC:
		q.sq.ops = &unreliable
	case provider.UD:
		q.sq.ops, t = &datagrams, transportUD
	case provider.XRCSend:
		q.sq.ops, t = extended, transportXRC
	case provider.XRCRecv:
		t = transportXRC
	case provider.RawPacket:
		q.sq.ops, t = &packets, transportRaw
	default:
		return nil, fmt.Errorf("mlx5: QP type %v: %w", cfg.Type, errors.ErrUnsupported)
	}
	if err := c.create(q, t, cfg, vendor{typ: uint8(cfg.Type), scatter: !cfg.NoScatterToCQE}); err != nil {
		return nil, err
	}
	return q, nil
}

// newQP returns a QP whose send queue has another offset in its page than the doorbells. Many
// processors compare only the last 12 bits of addresses before they let a load pass an earlier
// store. With equal offsets, a load of a post would wait for the previous post's store to the
// register, which costs 5 percent.
func newQP(typ provider.QPType) *QP {
	var q *QP
	for range 16 { // it comes out well every second or third time
		q = &QP{typ: typ}
		if from := uintptr(unsafe.Pointer(&q.sq)) % uarSize; from+unsafe.Sizeof(q.sq) <= uarDoorbells {
			break
		}
	}
	return q
}

// create makes the queue pair that q, which has its type, is to be.
func (c *Context) create(q *QP, t transport, cfg *provider.QPConfig, v vendor) (err error) {
	q.ctx, q.file, q.failed = c, c.file, cfg.Failed
	if err := q.parents(cfg); err != nil {
		return err
	}
	want := *cfg
	switch cfg.Type {
	case provider.XRCRecv:
		want.Cap = provider.QPCap{}
	case provider.XRCSend:
		want.Cap.RecvWR, want.Cap.RecvSGE = 0, 0
	}
	if cfg.Type != provider.RawPacket {
		want.MaxLSOHeader = 0
	}
	size, err := newQPSize(&c.caps, t, &want)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.free())
		}
	}()
	if v.scatter && q.mayScatter() {
		v.flags |= abi.MLX5_QP_FLAG_SCATTER_CQE
	}
	if err := q.alloc(size); err != nil {
		return err
	}
	q.open(size, t, &want)
	if cfg.Type != provider.XRCRecv {
		if err := q.addIndex(); err != nil {
			return err
		}
	}
	if q.sq.reg, err = c.uars.get(cfg.Unlocked); err != nil {
		return err
	}
	if err := q.createInKernel(size, &want, v); err != nil {
		return err
	}
	q.record()
	c.resources.publish(q)
	q.leak = leak.Track("mlx5 QP", c.file.Info().Name)
	return nil
}

// mayScatter reports whether the device may put data into the QP's completions, and counts
// the QP with its PDs then. For types that never have data there it makes no difference.
func (q *QP) mayScatter() bool {
	if q.ctx.noScatter {
		return false
	}
	if q.typ == provider.UD || q.typ == provider.RawPacket {
		return true
	}
	for _, p := range q.keyPDs() {
		if !p.addScatter() {
			q.dropScatter()
			return false
		}
		q.scatterPDs = append(q.scatterPDs, p)
	}
	return true
}

// dropScatter undoes mayScatter.
func (q *QP) dropScatter() {
	for _, p := range q.scatterPDs {
		p.dropScatter()
	}
	q.scatterPDs = nil
}

// keyPDs returns the PDs of the keys in the QP's requests and receives. For receives of an SRQ, it is
// the PD of the SRQ.
func (q *QP) keyPDs() []*pd {
	var all []*pd
	if q.pd != nil {
		all = append(all, q.pd)
	}
	if q.srq != nil && q.srq.pd != q.pd {
		all = append(all, q.srq.pd)
	}
	return all
}

// parents stores the objects that a QP of its type uses.
func (q *QP) parents(cfg *provider.QPConfig) error {
	if q.typ == provider.XRCRecv {
		if _, ok := cfg.XRCD.(*xrcd); !ok {
			return fmt.Errorf("mlx5: XRC_RECV QP without an XRC domain: %w", syscall.EINVAL)
		}
		return nil
	}
	var ok bool
	if q.pd, ok = cfg.PD.(*pd); !ok {
		return fmt.Errorf("mlx5: PD: %w: %w", errOtherDriver, syscall.EINVAL)
	}
	if q.sendCQ, ok = cfg.SendCQ.(*CQ); !ok {
		return fmt.Errorf("mlx5: send CQ: %w: %w", errOtherDriver, syscall.EINVAL)
	}
	if q.typ == provider.XRCSend {
		if cfg.SRQ != nil {
			return fmt.Errorf("mlx5: XRC_SEND QP with an SRQ: %w", syscall.EINVAL)
		}
		return nil
	}
	if q.recvCQ, ok = cfg.RecvCQ.(*CQ); !ok {
		return fmt.Errorf("mlx5: receive CQ: %w: %w", errOtherDriver, syscall.EINVAL)
	}
	if cfg.SRQ != nil {
		if q.srq, ok = cfg.SRQ.(*SRQ); !ok {
			return fmt.Errorf("mlx5: SRQ: %w: %w", errOtherDriver, syscall.EINVAL)
		}
	}
	return nil
}

// addIndex assigns the QP a user index. From then on, polls of its CQs may write to the memory of
// its PD, and its SRQ's.
func (q *QP) addIndex() (err error) {
	q.eachCQ((*pd).addCQ)
	if q.index, err = q.ctx.resources.add(q, nil); err != nil {
		q.eachCQ((*pd).dropCQ)
		return err
	}
	q.indexed = true
	return nil
}

// removeIndex takes the user index away, and the QP's completions out of its CQs.
func (q *QP) removeIndex() {
	q.purge()
	q.ctx.resources.remove(q.index)
	// Completions in between named a QP that does not exist.
	q.purge()
	q.eachCQ((*pd).dropCQ)
	q.indexed = false
}

// eachCQ calls f with each of the QP's CQs, and with the PD of the keys in its completions. For
// receives of an SRQ, it is the PD of the SRQ.
func (q *QP) eachCQ(f func(*pd, *CQ)) {
	if q.sendCQ != nil {
		f(q.pd, q.sendCQ)
	}
	switch {
	case q.recvCQ == nil:
	case q.srq != nil:
		f(q.srq.pd, q.recvCQ)
	default:
		f(q.pd, q.recvCQ)
	}
}

// alloc allocates the memory that the device will use.
func (q *QP) alloc(z qpSize) (err error) {
	n := z.rqBytes
	if z.separated {
		if q.sqBuf, err = mem.Alloc(max(z.sqBytes, 1)); err != nil {
			return fmt.Errorf("mlx5: memory of the send queue: %w", err)
		}
	} else {
		n += z.sqBytes
	}
	if q.buf, err = mem.Alloc(max(n, 1)); err != nil {
		return fmt.Errorf("mlx5: memory of the queues: %w", err)
	}
	q.db, err = q.ctx.allocDB()
	return err
}

// open lays the queues out.
func (q *QP) open(z qpSize, t transport, cfg *provider.QPConfig) {
	q.cap = z.cap()
	base := unsafe.Pointer(unsafe.SliceData(q.buf.Bytes()))
	if z.rqCount > 0 {
		q.rq.open(base, uint32(z.rqCount), uint32(z.rqShift), &q.db.rec[recvRecord], cfg.Unlocked)
		q.rq.mute = t == transportRaw
		q.rq.checksums = t == transportRaw && q.ctx.caps.flags&abi.IB_UVERBS_DEVICE_RAW_IP_CSUM != 0
	}
	s := &q.sq
	s.file, s.transport, s.unlocked = q.file, t, cfg.Unlocked
	s.bell = mmio.Bell{Record: &q.db.rec[sendRecord], Lock: s.lock.Word()}
	if z.sqBlocks == 0 {
		s.ops = nil
		return
	}
	if z.separated {
		s.buf = unsafe.Pointer(unsafe.SliceData(q.sqBuf.Bytes()))
	} else {
		s.buf = unsafe.Add(base, z.rqBytes)
	}
	s.end = uintptr(s.buf) + uintptr(z.sqBytes)
	s.mask = uint32(z.sqBlocks - 1)
	s.maxPost, s.maxSGE, s.maxInline = uint32(z.sqPost), uint32(z.sqSGE), uint32(z.sqInline)
	s.pending = unsafe.SliceData(make([]pendingWR, z.sqBlocks))
	s.forget()
	for i, f := range ctrlFlags {
		if cfg.SignalAll {
			f |= ctrlCQE
		}
		s.flags[i] = endian.Big64(uint64(f) << 32)
	}
	c := &q.ctx.caps
	if !c.atomics {
		s.ops = s.ops.withoutAtomics()
	}
	if t == transportRaw {
		s.packets = packetLimits{
			minHeader: c.minInline,
			maxHeader: cfg.MaxLSOHeader,
			checksums: c.flags&abi.IB_UVERBS_DEVICE_RAW_IP_CSUM != 0,
		}
		if c.tso.SupportedQPTs&(1<<abi.IB_UVERBS_QPT_RAW_PACKET) != 0 {
			s.packets.maxLSO = c.tso.MaxTSO
		}
	}
}

// createInKernel runs the command.
func (q *QP) createInKernel(z qpSize, cfg *provider.QPConfig, v vendor) error {
	cmd := abi.Mlx5CreateQP{
		BufAddr:    abi.NewSlicePointer(q.buf.Bytes()),
		DBAddr:     q.db.kernel(),
		SQWQECount: uint32(z.sqBlocks),
		RQWQECount: uint32(z.rqCount),
		RQWQEShift: uint32(z.rqShift),
		Flags:      v.flags,
		UIdx:       q.index,
		DCIStreams: v.dci,
	}
	if z.separated {
		cmd.SQBufAddr = abi.NewSlicePointer(q.sqBuf.Bytes())
	}
	if q.sq.reg != nil {
		cmd.BFRegIndex = q.sq.reg.page
		cmd.Flags |= abi.MLX5_QP_FLAG_UAR_PAGE_INDEX
	}
	if q.ctx.caps.ece {
		cmd.ECEOptions = eceVersion
	}
	kcfg := q.kernelConfig(cfg, v.typ)
	kcfg.Cap.MaxInlineData = uint32(z.sqInline)
	var resp abi.Mlx5CreateQPResp
	k, err := q.file.CreateQP(kcfg, uverbs.Driver{In: abi.Bytes(&cmd), Out: abi.Bytes(&resp)})
	if err != nil {
		return err
	}
	q.handle, q.num, q.ece = k.Handle, k.Num&maxNum, resp.ECEOptions
	q.sq.setNum(q.num)
	if z.sqBlocks == 0 {
		return nil // nothing rings, and for XRC_RECV the kernel assigns no register
	}
	if q.sq.reg == nil {
		if q.sq.reg, err = q.ctx.uars.assigned(resp.BFRegIndex); err != nil {
			return errors.Join(err, q.file.DestroyQP(k.Handle))
		}
	}
	q.sq.bell.Register, q.sq.slow = &q.sq.reg.Register, q.sq.reg.shared
	return nil
}

// kernelConfig is the part of the command that all drivers have.
func (q *QP) kernelConfig(cfg *provider.QPConfig, typ uint8) uverbs.QPConfig {
	k := uverbs.QPConfig{
		Type:       typ,
		UserHandle: cfg.UserHandle,
		Cap: abi.UverbsQPCap{
			MaxSendWR:  uint32(cfg.Cap.SendWR),
			MaxRecvWR:  uint32(cfg.Cap.RecvWR),
			MaxSendSGE: uint32(cfg.Cap.SendSGE),
			MaxRecvSGE: uint32(cfg.Cap.RecvSGE),
		},
	}
	if cfg.SignalAll {
		k.Flags |= abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	}
	if q.typ == provider.XRCRecv {
		h := cfg.XRCD.Handle()
		k.XRCD = &h
		return k
	}
	k.PD, k.SendCQ = cfg.PD.Handle(), cfg.SendCQ.Handle()
	if q.recvCQ != nil {
		k.RecvCQ = cfg.RecvCQ.Handle()
	}
	if cfg.SRQ != nil {
		h := cfg.SRQ.Handle()
		k.SRQ = &h
	}
	return k
}
