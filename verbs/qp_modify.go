// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"purerdma/internal/bridge"
)

// Modify changes the attributes that mask names, and with QPAttrState the state (ibv_modify_qp(3)).
// It returns a *TransitionError if the state does not allow the change. On iWARP only the kernel
// checks it.
func (q *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.opError("modify", q.modify(attr, mask))
}

func (q *QP) modify(attr *QPAttr, mask QPAttrMask) error {
	if q.closed {
		return net.ErrClosed
	}
	if q.Device().Transport() != TransportIWARP {
		if err := checkTransition(q.typ, q.p.State(), attr, mask); err != nil {
			return err
		}
	}
	if err := q.checkPorts(attr, mask); err != nil {
		return err
	}
	err := q.p.Modify(attr, mask)
	if err == nil {
		if mask&QPAttrState != 0 && attr.State == QPReset {
			q.lastWQE.clear()
			q.broken, q.cause = false, nil
			for _, w := range q.watches {
				if w.Reset != nil {
					w.Reset()
				}
			}
			q.watches = slices.DeleteFunc(q.watches, func(w bridge.Watch) bool { return w.UntilReset })
		}
		return nil
	}
	if text := attrText(attr, mask); text != "" {
		return fmt.Errorf("%s: %w", text, err)
	}
	return err
}

// attach implements bridge.Verbs.Attach.
func (q *QP) attach(create func() (object any, w bridge.Watch, err error)) (any, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, net.ErrClosed
	}
	if q.attached == nil {
		object, w, err := create()
		if err != nil {
			return nil, err
		}
		q.attached = object
		q.watches = append(q.watches, w)
	}
	return q.attached, nil
}

// watch implements bridge.Verbs.Watch.
func (q *QP) watch(w bridge.Watch) {
	q.mu.Lock()
	closed, broken, cause := q.closed, q.broken, q.cause
	if !closed {
		q.watches = append(q.watches, w)
	}
	q.mu.Unlock()
	switch {
	case closed && w.Closed != nil:
		w.Closed()
	case !closed && broken && w.Failed != nil:
		go w.Failed(cause)
	}
}

// checkPorts checks the ports that a change names.
func (q *QP) checkPorts(a *QPAttr, mask QPAttrMask) error {
	var err error
	if mask&QPAttrPort != 0 {
		err = q.pd.dev.checkPort("Port", a.Port)
	}
	if err == nil && mask&QPAttrAV != 0 {
		err = q.pd.dev.checkPort("AH.Port", a.AH.Port)
	}
	if err == nil && mask&QPAttrAltPath != 0 {
		if err = q.pd.dev.checkPort("AltPort", a.AltPort); err == nil {
			err = q.pd.dev.checkPort("AltAH.Port", a.AltAH.Port)
		}
	}
	return err
}

// attrText lists the attributes of a change, because the kernel returns EINVAL without naming the
// rejected one. Ports have been checked.
func attrText(a *QPAttr, mask QPAttrMask) string {
	var parts []string
	for _, f := range [...]struct {
		of    QPAttrMask
		field string
		value any
	}{
		{QPAttrState, "State", a.State},
		{QPAttrCurState, "CurState", a.CurState},
		{QPAttrPKeyIndex, "PKeyIndex", a.PKeyIndex},
		{QPAttrAccess, "Access", a.Access},
		{QPAttrQKey, "QKey", fmt.Sprintf("%#x", a.QKey)},
		{QPAttrAV, "AH", addressText(&a.AH)},
		{QPAttrAltPath, "AltAH", addressText(&a.AltAH)},
		{QPAttrAltPath, "AltPKeyIndex", a.AltPKeyIndex},
		{QPAttrAltPath, "AltTimeout", a.AltTimeout},
		{QPAttrPathMigState, "PathMigState", a.PathMigState},
		{QPAttrCap, "Cap", fmt.Sprintf("%+v", a.Cap)},
		{QPAttrDestQPNum, "DestQPNum", fmt.Sprintf("%#x", a.DestQPNum)},
		{QPAttrRQPSN, "RQPSN", a.RQPSN},
		{QPAttrSQPSN, "SQPSN", a.SQPSN},
		{QPAttrPathMTU, "PathMTU", a.PathMTU},
		{QPAttrMaxDestRdAtomic, "MaxDestRdAtomic", a.MaxDestRdAtomic},
		{QPAttrMaxRdAtomic, "MaxRdAtomic", a.MaxRdAtomic},
		{QPAttrTimeout, "Timeout", a.Timeout},
		{QPAttrRetryCount, "RetryCount", a.RetryCount},
		{QPAttrRNRRetryCount, "RNRRetryCount", a.RNRRetryCount},
		{QPAttrMinRNRTimer, "MinRNRTimer", a.MinRNRTimer},
		{QPAttrRateLimit, "RateLimit", a.RateLimit},
	} {
		if mask&f.of != 0 {
			parts = append(parts, fmt.Sprintf("%s %v", f.field, f.value))
		}
	}
	return strings.Join(parts, ", ")
}
