// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Dynamically connected transport (DC; mlx5dv_create_qp(3)) is reliable, and needs no
// connection: an initiator (DCI) sends to any target (DCT), which each request names.
// The devices connect and disconnect as requests come.

// typeDC is the kernel's type of QPs of DC.
const typeDC provider.QPType = 0xff // IB_UVERBS_QPT_DRIVER

// DCIConfig configures a DC initiator.
type DCIConfig struct {
	PD         provider.PD
	CQ         provider.CQ
	Cap        provider.QPCap // of sends
	SignalAll  bool
	Unlocked   bool // see provider.QPConfig
	UserHandle uint64
	// LogStreams and LogErroredStreams are the logarithms of how many streams, which
	// fail one by one, may be used at a time, and may have failed before the DCI
	// fails. 0 and 0: it has none.
	LogStreams, LogErroredStreams uint8
}

// CreateDCI makes a DC initiator. It is moved to RTS as a QP of type RC is, without an
// address and a peer's number, and takes requests by PostDC.
func (c *Context) CreateDCI(cfg *DCIConfig) (*QP, error) {
	v := vendor{typ: uint8(typeDC), flags: abi.MLX5_QP_FLAG_TYPE_DCI}
	if cfg.LogStreams != 0 || cfg.LogErroredStreams != 0 {
		if s := c.caps.streams; cfg.LogStreams > s.MaxLogNumConcurent || cfg.LogErroredStreams > s.MaxLogNumErrored {
			return nil, fmt.Errorf("mlx5: 2^%d DC streams of which 2^%d may fail, at most 2^%d and 2^%d: %w",
				cfg.LogStreams, cfg.LogErroredStreams, s.MaxLogNumConcurent, s.MaxLogNumErrored, syscall.EINVAL)
		}
		v.flags |= abi.MLX5_QP_FLAG_DCI_STREAM
		v.dci.LogNumConcurent, v.dci.LogNumErrored = cfg.LogStreams, cfg.LogErroredStreams
	}
	q := newQP(typeDC)
	q.sq.ops = dynamic
	err := c.create(q, transportDC, &provider.QPConfig{
		Type:       typeDC,
		PD:         cfg.PD,
		SendCQ:     cfg.CQ,
		RecvCQ:     cfg.CQ,
		Cap:        provider.QPCap{SendWR: cfg.Cap.SendWR, SendSGE: cfg.Cap.SendSGE, Inline: cfg.Cap.Inline},
		SignalAll:  cfg.SignalAll,
		Unlocked:   cfg.Unlocked,
		UserHandle: cfg.UserHandle,
	}, v)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// DCWR is a request for a DC initiator. AH and RemoteQPN name the target.
type DCWR struct {
	provider.SendWR
	Key    uint64 // the target's
	Stream uint16 // of a DCI with streams
}

// PostDC is PostSend for a DC initiator.
func (q *QP) PostDC(wrs []DCWR) (int, error) {
	s := &q.sq
	if !s.unlocked {
		s.lock.Lock()
	}
	if !s.ready.Load() || s.file.Closed() || s.transport != transportDC {
		dc := s.transport == transportDC
		s.unlock()
		if !dc {
			return 0, fmt.Errorf("mlx5: PostDC to a QP of type %v: %w", q.typ, syscall.EOPNOTSUPP)
		}
		return 0, q.notReady(len(wrs))
	}
	var err error
	if free := s.maxPost - (s.head - atomic.LoadUint32(&s.tail)); len(wrs) > int(free) {
		wrs, err = wrs[:free], provider.ErrFull
	}
	cur, last, ds, n := s.cur, uint32(0), uint32(0), uint32(0)
	for i := range wrs {
		wr := &wrs[i]
		d := s.buildTo(&wr.SendWR, cur, n, target{wr.Key, wr.Stream})
		if d == 0 {
			err = s.reason(&wr.SendWR)
			break
		}
		last, ds = cur, d
		cur += (d + 3) >> 2
		n++
	}
	if n == 0 {
		s.unlock()
		return 0, err
	}
	s.publish(cur, n, last, ds)
	return int(n), err
}

// DCTConfig configures a DC target.
type DCTConfig struct {
	PD         provider.PD
	CQ         provider.CQ
	SRQ        provider.SRQ // takes the receives
	Key        uint64       // that requests must have
	UserHandle uint64
}

// CreateDCT makes a DC target. It is moved to INIT and RTR, and has a number from then on. It posts
// nothing. Receives are posted to its SRQ.
func (c *Context) CreateDCT(cfg *DCTConfig) (_ *QP, err error) {
	if cfg.SRQ == nil {
		return nil, fmt.Errorf("mlx5: DC target without an SRQ: %w", syscall.EINVAL)
	}
	q := &QP{typ: typeDC, dct: true, ctx: c, file: c.file}
	pcfg := &provider.QPConfig{Type: typeDC, PD: cfg.PD, SendCQ: cfg.CQ, RecvCQ: cfg.CQ, SRQ: cfg.SRQ, UserHandle: cfg.UserHandle}
	if err := q.parents(pcfg); err != nil {
		return nil, err
	}
	q.sq.file = c.file
	if err := q.addIndex(); err != nil {
		return nil, err
	}
	cmd := abi.Mlx5CreateQP{Flags: abi.MLX5_QP_FLAG_TYPE_DCT, UIdx: q.index}
	if c.caps.scat2DCT && q.mayScatter() {
		cmd.Flags |= abi.MLX5_QP_FLAG_SCATTER_CQE
	}
	if c.caps.ece {
		cmd.ECEOptions = eceVersion
	}
	// The key takes the place of an address, which no pointer may hold, so the struct is passed as
	// bytes.
	raw := append([]byte(nil), abi.Bytes(&cmd)...)
	binary.NativeEndian.PutUint64(raw[dctKeyOffset:], cfg.Key)
	var resp abi.Mlx5CreateQPResp
	k, err := c.file.CreateQP(q.kernelConfig(pcfg, uint8(typeDC)), uverbs.Driver{In: raw, Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, errors.Join(err, q.free())
	}
	q.handle, q.ece = k.Handle, resp.ECEOptions
	q.leak = leak.Track("mlx5 DCT", c.file.Info().Name)
	return q, nil
}

// dctKeyOffset is the offset of the key in struct mlx5_ib_create_qp, access_key.
const dctKeyOffset = 40

// modifyDCT changes a DC target, which gets its number in RTR.
func (q *QP) modifyDCT(cmd *abi.UverbsModifyQP) error {
	resp, err := q.modifyEx(&abi.UverbsExModifyQP{Base: *cmd})
	if err != nil {
		return err
	}
	if cmd.AttrMask&uint32(provider.QPAttrState) == 0 || provider.QPState(cmd.QPState) != provider.QPRTR {
		return nil
	}
	if resp.ResponseLength < 8 {
		return fmt.Errorf("mlx5: the kernel gave the DC target no number: %w", syscall.EINVAL)
	}
	q.num = resp.DCTN & maxNum
	q.granted(&resp)
	q.record()
	q.ctx.resources.publish(q)
	return nil
}
