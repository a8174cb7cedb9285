// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"purerdma/verbs"
)

// None is an explicit zero of a field of Path whose zero value means a default.
const None = -1

// Path holds the route from a QP to its peer, and the parameters of their connection. The zero
// Path starts at GID 0 of port 1. A QP uses the fields that its type has.
type Path struct {
	Port         uint8 // of this host; 0 means 1
	SGIDIndex    uint8 // which GID of the port packets come from: see verbs.Device.GIDFor
	SL           uint8 // service level
	HopLimit     uint8 // 0 means 64
	TrafficClass uint8
	PKeyIndex    uint16

	MTU    verbs.MTU    // 0 means 1024 bytes; both sides must have the same
	Access verbs.Access // what the peer may do to this host's memory; 0: nothing, but its messages come

	// RdAtomic is the number of READs and atomics in flight, in each direction, of RC: at
	// most 255 and what the device can. 0 means 1, None forbids them (verbs.ErrNoReads).
	RdAtomic int
	// RetryCount is how often an unanswered request of RC is repeated: at most 7. 0 means 6,
	// None no retries. rxe takes 7 for retries without end.
	RetryCount int

	// AckTimeout is how long a QP of RC waits for an acknowledgement before it sends again:
	// rounded up as by verbs.EncodeAckTimeout, 0 means 67 ms, verbs.NoTimeout without end.
	AckTimeout time.Duration
	// MinRNRTimer is how long the peer waits before it repeats a send of RC that found no
	// posted receive: rounded up as by verbs.EncodeRNRTimer, 0 means 0.64 ms.
	MinRNRTimer time.Duration

	// QKey is what datagrams to the QP must carry; 0 means 0x11111111.
	QKey uint32
}

// Values of fields that are 0.
const (
	defaultHopLimit    = 64
	defaultAckTimeout  = 67 * time.Millisecond
	defaultMinRNRTimer = 640 * time.Microsecond
	defaultQKey        = 0x11111111 // that of ibv_ud_pingpong
	defaultRdAtomic    = 1
	defaultRetryCount  = 6
	rnrRetry           = 7 // for ever
)

func or[T comparable](v, zero T) T {
	var none T
	if v == none {
		return zero
	}
	return v
}

// number returns the encoded value of a field that has a default and at most most.
func number(field string, v, zero, most int) (uint8, error) {
	switch {
	case v == 0:
		v = zero
	case v == None:
		v = 0
	case v < 0 || v > most:
		return 0, fmt.Errorf("oob.Path: %s is %d, at most %d is possible: %w", field, v, most, syscall.EINVAL)
	}
	return uint8(v), nil
}

func (p *Path) rdAtomic() (uint8, error) { return number("RdAtomic", p.RdAtomic, defaultRdAtomic, 255) }

func (p *Path) port() uint8 { return or(p.Port, 1) }

// RemoteQKey returns the QKey that datagrams to the peer carry as SendWR.RemoteQKey, if
// it has the same path.
func (p *Path) RemoteQKey() uint32 { return or(p.QKey, defaultQKey) }

// AH returns the address of a peer: what QPAttr.AH and PD.CreateAH take.
func (p *Path) AH(remote Address) verbs.AHAttr {
	a := verbs.AHAttr{DLID: remote.LID, SL: p.SL, Port: p.port()}
	if remote.GID != (verbs.GID{}) {
		a.Global = true
		a.GRH = verbs.GlobalRoute{DGID: remote.GID, SGIDIndex: p.SGIDIndex, HopLimit: or(p.HopLimit, defaultHopLimit), TrafficClass: p.TrafficClass}
	}
	return a
}

// Init moves a QP from RESET to INIT. From then on receives can be posted, and
// those that the peer may need at once must be before it is told of the QP.
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

// ToRTR moves a QP from INIT to RTR: it receives, and answers its peer.
func (p *Path) ToRTR(qp *verbs.QP, remote Address) error {
	if err := supported(qp); err != nil {
		return err
	}
	a := verbs.QPAttr{State: verbs.QPRTR}
	mask := verbs.QPAttrState
	if qp.Type() != verbs.UD {
		if remote.GID[0] == 0xff {
			return fmt.Errorf("connect QP %d of %s: the peer's GID %v is one of multicast: %w", qp.Num(), qp.Device().Name(), remote.GID, syscall.EINVAL)
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

// ToRTS moves a QP from RTR to RTS: it sends, beginning with the packet number of
// the address that the peer has been told.
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

// Connect moves a QP from INIT to RTS, connected to the peer's. The peer's is not
// yet, perhaps: who sends first must know that it is, as ConnectActive and ConnectPassive see to.
func (p *Path) Connect(qp *verbs.QP, own, remote Address) error {
	if err := p.ToRTR(qp, remote); err != nil {
		return err
	}
	return p.ToRTS(qp, own)
}

// supported refuses QPs that only the connection manager can move.
func supported(qp *verbs.QP) error {
	if dev := qp.Device(); dev.Transport() == verbs.TransportIWARP {
		return fmt.Errorf("%s is iWARP, which connects by the connection manager alone: %w", dev.Name(), errors.ErrUnsupported)
	}
	return nil
}
