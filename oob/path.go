// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"purerdma/verbs"
)

// None is an explicit zero for a field of Path whose zero value means a default.
const None = -1

// Path holds the route from a QP to its peer, and the parameters of their connection. The zero
// Path starts at GID 0 of port 1. Each type of QP uses some of the fields.
type Path struct {
	Port         uint8 // port of this host, 0 means 1
	SGIDIndex    uint8 // index of the port's source GID (see verbs.Device.GIDFor)
	SL           uint8 // service level
	HopLimit     uint8 // 0 means 64
	TrafficClass uint8
	PKeyIndex    uint16

	MTU    verbs.MTU    // 0 means 1024 bytes. Both sides need equal values.
	Access verbs.Access // The peer's rights on this host's memory. Its messages need none.

	// RdAtomic is the number of READs and atomics in flight in each direction, for RC. It is at
	// most 255 and at most the device's limit. 0 means 1. None forbids them (verbs.ErrNoReads).
	RdAtomic int
	// RetryCount is the number of times that an unanswered request is repeated, for RC. It is
	// at most 7. 0 means 6, None means no retries. rxe repeats without limit for 7.
	RetryCount int

	// AckTimeout is the time that a QP waits for an acknowledgement before it sends again, for
	// RC. It is rounded up as by verbs.EncodeAckTimeout. 0 means 67 ms, verbs.NoTimeout means
	// no limit.
	AckTimeout time.Duration
	// MinRNRTimer is the time that the peer waits before it repeats a send that found no posted
	// receive, for RC. It is rounded up as by verbs.EncodeRNRTimer. 0 means 0.64 ms.
	MinRNRTimer time.Duration

	// QKey is the key that datagrams to the QP must carry. 0 means 0x11111111.
	QKey uint32
}

// Defaults of fields that are 0.
const (
	defaultHopLimit    = 64
	defaultAckTimeout  = 67 * time.Millisecond
	defaultMinRNRTimer = 640 * time.Microsecond
	defaultQKey        = 0x11111111 // as in ibv_ud_pingpong
	defaultRdAtomic    = 1
	defaultRetryCount  = 6
	rnrRetry           = 7 // no limit
)

func or[T comparable](v, zero T) T {
	var none T
	if v == none {
		return zero
	}
	return v
}

// number returns the encoded value of a field with a default. most is its maximum.
func number(field string, v, zero, most int) (uint8, error) {
	switch {
	case v == 0:
		v = zero
	case v == None:
		v = 0
	case v < 0 || v > most:
		return 0, fmt.Errorf("oob.Path: %s is %d, want at most %d: %w", field, v, most, syscall.EINVAL)
	}
	return uint8(v), nil
}

func (p *Path) rdAtomic() (uint8, error) { return number("RdAtomic", p.RdAtomic, defaultRdAtomic, 255) }

func (p *Path) port() uint8 { return or(p.Port, 1) }

// RemoteQKey returns the QKey for SendWR.RemoteQKey of datagrams to a peer with an equal path.
func (p *Path) RemoteQKey() uint32 { return or(p.QKey, defaultQKey) }

// AH returns the address of a peer for QPAttr.AH and PD.CreateAH.
func (p *Path) AH(remote Address) verbs.AHAttr {
	a := verbs.AHAttr{DLID: remote.LID, SL: p.SL, Port: p.port()}
	if remote.GID != (verbs.GID{}) {
		a.Global = true
		a.GRH = verbs.GlobalRoute{DGID: remote.GID, SGIDIndex: p.SGIDIndex, HopLimit: or(p.HopLimit, defaultHopLimit), TrafficClass: p.TrafficClass}
	}
	return a
}

// Init moves a QP from RESET to INIT. Receives can then be posted. Post the receives for the
// peer's first messages before the peer gets the address of the QP.
func (p *Path) Init(qp *verbs.QP) error {
	if err := supported(qp); err != nil {
		return err
	}
	a := verbs.QPAttr{State: verbs.QPInit, PKeyIndex: p.PKeyIndex, Port: p.port()}
	mask := verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort
	if qp.Type() == verbs.UD {
		a.QKey = p.RemoteQKey()
		mask |= verbs.QPAttrQKey
	} else {
		a.Access = p.Access
		mask |= verbs.QPAttrAccess
	}
	return qp.Modify(&a, mask)
}

// ToRTR moves a QP from INIT to RTR. It then receives and answers its peer.
func (p *Path) ToRTR(qp *verbs.QP, remote Address) error {
	if err := supported(qp); err != nil {
		return err
	}
	a := verbs.QPAttr{State: verbs.QPRTR}
	mask := verbs.QPAttrState
	if qp.Type() != verbs.UD {
		if remote.GID[0] == 0xff {
			return fmt.Errorf("connect QP %d of %s: the peer's GID %v is a multicast GID: %w", qp.Num(), qp.Device().Name(), remote.GID, syscall.EINVAL)
		}
		a.PathMTU = or(p.MTU, verbs.MTU1024)
		a.DestQPNum, a.RQPSN = remote.QPN, remote.PSN
		a.AH = p.AH(remote)
		mask |= verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN
	}
	if qp.Type() == verbs.RC {
		var err error
		if a.MaxDestRdAtomic, err = p.rdAtomic(); err != nil {
			return err
		}
		if a.MinRNRTimer, err = verbs.EncodeRNRTimer(or(p.MinRNRTimer, defaultMinRNRTimer)); err != nil {
			return fmt.Errorf("oob.Path: %w", err)
		}
		mask |= verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer
	}
	return qp.Modify(&a, mask)
}

// ToRTS moves a QP from RTR to RTS. It then sends, starting with the packet number of own, the
// address that the peer has received.
func (p *Path) ToRTS(qp *verbs.QP, own Address) error {
	a := verbs.QPAttr{State: verbs.QPRTS, SQPSN: own.PSN}
	mask := verbs.QPAttrState | verbs.QPAttrSQPSN
	if qp.Type() == verbs.RC {
		var err error
		if a.Timeout, err = verbs.EncodeAckTimeout(or(p.AckTimeout, defaultAckTimeout)); err != nil {
			return fmt.Errorf("oob.Path: %w", err)
		}
		if a.RetryCount, err = number("RetryCount", p.RetryCount, defaultRetryCount, 7); err != nil {
			return err
		}
		if a.MaxRdAtomic, err = p.rdAtomic(); err != nil {
			return err
		}
		a.RNRRetryCount = rnrRetry
		mask |= verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrMaxRdAtomic
	}
	return qp.Modify(&a, mask)
}

// Connect moves a QP from INIT to RTS, connected to the peer's QP. The peer's QP may not be
// connected yet. The first sender must wait until it is, as ConnectActive and ConnectPassive
// do.
func (p *Path) Connect(qp *verbs.QP, own, remote Address) error {
	if err := p.ToRTR(qp, remote); err != nil {
		return err
	}
	return p.ToRTS(qp, own)
}

// supported rejects QPs that only the connection manager can move.
func supported(qp *verbs.QP) error {
	if dev := qp.Device(); dev.Transport() == verbs.TransportIWARP {
		return fmt.Errorf("%s is iWARP, which needs the connection manager: %w", dev.Name(), errors.ErrUnsupported)
	}
	return nil
}
