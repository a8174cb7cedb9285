// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"math/bits"
	"syscall"

	"purerdma/abi"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// rights has the state of a QP that the kernel keeps from one transition to the next.
type rights struct {
	access   uint32
	depth    uint8 // depth of reads and atomics from the peer
	rnrTimer uint8
	mtu      uint8
	isDCT    bool // the target exists in the device
	state    uint8
	ring     []byte
	raw      *rawQP // for QPs of raw packets only
}

// The states of QPs in the kernel (enum ib_qp_state). statesOfIB maps the device's states to them.
const (
	ibReset = iota
	ibInit
	ibRTR
	ibRTS
	ibSQD
	ibSQE
	ibErr
)

var statesOfIB = map[uint64]uint8{
	prm.QPReset: ibReset, prm.QPInit: ibInit, prm.QPRTR: ibRTR, prm.QPRTS: ibRTS, prm.QPSQErr: ibSQE, prm.QPSQD: ibSQD, prm.QPSQDraining: ibSQD, prm.QPErr: ibErr,
}

// transitions has the commands for transitions. None drains a send queue, because a device does so by itself.
var transitions = map[[2]uint8]uint16{
	{ibReset, ibInit}: prm.OpRst2Init, {ibInit, ibInit}: prm.OpInit2Init, {ibInit, ibRTR}: prm.OpInit2RTR, {ibRTR, ibRTS}: prm.OpRTR2RTS,
	{ibRTS, ibRTS}: prm.OpRTS2RTS, {ibSQE, ibRTS}: prm.OpSQErr2RTS, {ibSQD, ibRTS}: prm.OpSQDRTS,
}

// The attributes of a QP in the kernel (enum ib_qp_attr_mask).
const (
	attrAccess      = 1 << 3
	attrPKeyIndex   = 1 << 4
	attrPort        = 1 << 5
	attrQKey        = 1 << 6
	attrAV          = 1 << 7
	attrPathMTU     = 1 << 8
	attrTimeout     = 1 << 9
	attrRetryCount  = 1 << 10
	attrRNRRetry    = 1 << 11
	attrRecvPSN     = 1 << 12
	attrMaxRead     = 1 << 13
	attrMinRNRTimer = 1 << 15
	attrSendPSN     = 1 << 16
	attrMaxDestRead = 1 << 17
	attrDestQPN     = 1 << 20
)

// MoveQP executes the command of a transition.
func (d *device) MoveQP(q *mlx5test.QP, from, to uint8, a *abi.UverbsModifyQP, ece uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.moved[q]
	r := *now
	r.take(a)
	r.state = to
	if q.IsDCT() {
		if to == ibRTR {
			if err := d.makeDCT(q, &r, ece); err != nil {
				return err
			}
		}
		*now = r
		return nil
	}
	var err error
	switch {
	case r.raw != nil:
		err = d.moveRaw(r.raw, from, to)
	case to == ibErr:
		err = d.on(prm.Op2Err, q.Num)
	case to == ibReset:
		err = d.on(prm.Op2Rst, q.Num)
	default:
		opcode, ok := transitions[[2]uint8{from, to}]
		if !ok {
			return syscall.EINVAL
		}
		var out []byte
		out, err = d.command(opcode, prm.QPInLen, nil, 16, func(in []byte) {
			prm.QPIn.QPN.Set(in, uint64(q.Num))
			prm.QPIn.ECE.Set(in, uint64(ece))
			prm.QPIn.OptParam.Set(in, optional(a.AttrMask))
			r.context(prm.QPIn.Context.Of(in), services[q.Type], a)
		})
		if err == nil {
			q.ECE = uint32(prm.QPOut.ECE.Get(out))
		}
	}
	if err == nil {
		*now = r
	}
	return err
}

// take stores the values of the attributes.
func (r *rights) take(a *abi.UverbsModifyQP) {
	if a.AttrMask&attrAccess != 0 {
		r.access = a.QPAccessFlags
	}
	if a.AttrMask&attrMaxDestRead != 0 {
		r.depth = a.MaxDestRdAtomic
	}
	if a.AttrMask&attrMinRNRTimer != 0 {
		r.rnrTimer = a.MinRNRTimer
	}
	if a.AttrMask&attrPathMTU != 0 {
		r.mtu = a.PathMTU
	}
}

// optional returns the optional parameters for the attributes in mask.
func optional(mask uint32) (opt uint64) {
	for bit, o := range map[uint32]uint64{
		attrAccess:      prm.OptRemoteRead | prm.OptRemoteWrite | prm.OptAtomic,
		attrMaxDestRead: prm.OptRRAMax | prm.OptRemoteRead | prm.OptRemoteWrite | prm.OptAtomic,
		attrPKeyIndex:   prm.OptPKeyIndex, attrPort: prm.OptPort, attrQKey: prm.OptQKey, attrAV: prm.OptPrimary | prm.OptPort,
		attrTimeout: prm.OptAckTimeout, attrRetryCount: prm.OptRetryCount, attrRNRRetry: prm.OptRNRRetry, attrMaxRead: prm.OptSRAMax,
		attrMinRNRTimer: prm.OptRNRTimeout,
	} {
		if mask&bit != 0 {
			opt |= o
		}
	}
	return opt
}

// context fills in the parameters of a transition.
func (r *rights) context(c []byte, service uint64, a *abi.UverbsModifyQP) {
	prm.QPC.Service.Set(c, service)
	access := r.access
	if r.depth == 0 { // with depth 0 the peer cannot read
		access &= abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	}
	for bit, f := range map[uint32]prm.Field{
		abi.IB_UVERBS_ACCESS_REMOTE_READ: prm.QPC.RemoteRead, abi.IB_UVERBS_ACCESS_REMOTE_WRITE: prm.QPC.RemoteWrite,
		abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC: prm.QPC.RemoteAtomic,
	} {
		if access&bit != 0 {
			f.Set(c, 1)
		}
	}
	path := prm.QPC.Primary.Of(c)
	set := func(bit uint32, b []byte, f prm.Field, v uint64) {
		if a.AttrMask&bit != 0 {
			f.Set(b, v)
		}
	}
	set(attrPort, path, prm.ADS.Port, uint64(a.PortNum))
	set(attrPKeyIndex, path, prm.ADS.PKeyIndex, uint64(a.PKeyIndex))
	set(attrQKey, c, prm.QPC.QKey, uint64(a.QKey))
	set(attrPathMTU, c, prm.QPC.MTU, uint64(a.PathMTU))
	set(attrTimeout, path, prm.ADS.AckTimeout, uint64(a.Timeout))
	set(attrRetryCount, c, prm.QPC.RetryCount, uint64(a.RetryCnt))
	set(attrRNRRetry, c, prm.QPC.RNRRetry, uint64(a.RNRRetry))
	set(attrRecvPSN, c, prm.QPC.NextRecvPSN, uint64(a.RQPSN))
	set(attrSendPSN, c, prm.QPC.NextSendPSN, uint64(a.SQPSN))
	set(attrMaxRead, c, prm.QPC.LogSRAMax, log(a.MaxRdAtomic))
	set(attrMaxDestRead, c, prm.QPC.LogRRAMax, log(a.MaxDestRdAtomic))
	set(attrMinRNRTimer, c, prm.QPC.MinRNRNAK, uint64(a.MinRNRTimer))
	set(attrDestQPN, c, prm.QPC.RemoteQPN, uint64(a.DestQPNum))
	if service == prm.ServiceUD {
		prm.QPC.MTU.Set(c, 5)
	}
	if a.AttrMask&attrAV != 0 {
		prm.ADS.SourceIndex.Set(path, uint64(a.Dest.SGIDIndex))
		prm.ADS.HopLimit.Set(path, uint64(a.Dest.HopLimit))
		prm.ADS.TClass.Set(path, uint64(a.Dest.TrafficClass))
		prm.ADS.FlowLabel.Set(path, uint64(a.Dest.FlowLabel))
		copy(prm.ADS.RGID.Of(path), a.Dest.DGID[:])
	}
}

// log returns the base 2 logarithm, rounded up.
func log(n uint8) uint64 { return uint64(bits.Len8(max(n, 1) - 1)) }
