// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"strings"
	"syscall"

	"purerdma/provider"
)

// attrs lists the attributes of one transition, besides the state itself.
type attrs struct {
	required QPAttrMask
	optional QPAttrMask
}

// transitions lists the possible changes of state for each QP type, with their required and
// optional attributes. The source is chapter 10.3 of the InfiniBand architecture specification,
// volume 1. Linux applies it to all drivers except iWARP drivers.
var transitions = map[QPType]map[[2]QPState]attrs{
	RC: {
		{QPReset, QPReset}: {},
		{QPReset, QPInit}:  {required: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},

		{QPInit, QPReset}: {},
		{QPInit, QPErr}:   {},
		{QPInit, QPInit}:  {optional: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPRTR}: {
			required: QPAttrAV | QPAttrPathMTU | QPAttrDestQPNum | QPAttrRQPSN | QPAttrMaxDestRdAtomic | QPAttrMinRNRTimer,
			optional: QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex,
		},

		{QPRTR, QPReset}: {},
		{QPRTR, QPErr}:   {},
		{QPRTR, QPRTS}: {
			required: QPAttrTimeout | QPAttrRetryCount | QPAttrRNRRetryCount | QPAttrSQPSN | QPAttrMaxRdAtomic,
			optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrMinRNRTimer | QPAttrPathMigState,
		},

		{QPRTS, QPReset}: {},
		{QPRTS, QPErr}:   {},
		{QPRTS, QPRTS}:   {optional: QPAttrCurState | QPAttrAccess | QPAttrAltPath | QPAttrPathMigState | QPAttrMinRNRTimer},
		{QPRTS, QPSQD}:   {optional: QPAttrEnSQDAsyncNotify},

		{QPSQD, QPReset}: {},
		{QPSQD, QPErr}:   {},
		{QPSQD, QPRTS}:   {optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrMinRNRTimer | QPAttrPathMigState},
		{QPSQD, QPSQD}: {
			optional: QPAttrPort | QPAttrAV | QPAttrTimeout | QPAttrRetryCount | QPAttrRNRRetryCount | QPAttrMaxRdAtomic |
				QPAttrMaxDestRdAtomic | QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex | QPAttrMinRNRTimer | QPAttrPathMigState,
		},

		{QPSQE, QPReset}: {},
		{QPSQE, QPErr}:   {},
		{QPSQE, QPRTS}:   {},

		{QPErr, QPReset}: {},
		{QPErr, QPErr}:   {},
	},

	UC: {
		{QPReset, QPReset}: {},
		{QPReset, QPInit}:  {required: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},

		{QPInit, QPReset}: {},
		{QPInit, QPErr}:   {},
		{QPInit, QPInit}:  {optional: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPRTR}: {
			required: QPAttrAV | QPAttrPathMTU | QPAttrDestQPNum | QPAttrRQPSN,
			optional: QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex,
		},

		{QPRTR, QPReset}: {},
		{QPRTR, QPErr}:   {},
		{QPRTR, QPRTS}: {
			required: QPAttrSQPSN,
			optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrPathMigState,
		},

		{QPRTS, QPReset}: {},
		{QPRTS, QPErr}:   {},
		{QPRTS, QPRTS}:   {optional: QPAttrCurState | QPAttrAccess | QPAttrAltPath | QPAttrPathMigState},
		{QPRTS, QPSQD}:   {optional: QPAttrEnSQDAsyncNotify},

		{QPSQD, QPReset}: {},
		{QPSQD, QPErr}:   {},
		{QPSQD, QPRTS}:   {optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrPathMigState},
		{QPSQD, QPSQD}:   {optional: QPAttrAV | QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex | QPAttrPathMigState},

		{QPSQE, QPReset}: {},
		{QPSQE, QPErr}:   {},
		{QPSQE, QPRTS}:   {optional: QPAttrCurState | QPAttrAccess},

		{QPErr, QPReset}: {},
		{QPErr, QPErr}:   {},
	},

	UD: {
		{QPReset, QPReset}: {},
		{QPReset, QPInit}:  {required: QPAttrPKeyIndex | QPAttrPort | QPAttrQKey},

		{QPInit, QPReset}: {},
		{QPInit, QPErr}:   {},
		{QPInit, QPInit}:  {optional: QPAttrPKeyIndex | QPAttrPort | QPAttrQKey},
		{QPInit, QPRTR}:   {optional: QPAttrPKeyIndex | QPAttrQKey},

		{QPRTR, QPReset}: {},
		{QPRTR, QPErr}:   {},
		{QPRTR, QPRTS}:   {required: QPAttrSQPSN, optional: QPAttrCurState | QPAttrQKey},

		{QPRTS, QPReset}: {},
		{QPRTS, QPErr}:   {},
		{QPRTS, QPRTS}:   {optional: QPAttrCurState | QPAttrQKey},
		{QPRTS, QPSQD}:   {optional: QPAttrEnSQDAsyncNotify},

		{QPSQD, QPReset}: {},
		{QPSQD, QPErr}:   {},
		{QPSQD, QPRTS}:   {optional: QPAttrCurState | QPAttrQKey},
		{QPSQD, QPSQD}:   {optional: QPAttrPKeyIndex | QPAttrQKey},

		{QPSQE, QPReset}: {},
		{QPSQE, QPErr}:   {},
		{QPSQE, QPRTS}:   {optional: QPAttrCurState | QPAttrQKey},

		{QPErr, QPReset}: {},
		{QPErr, QPErr}:   {},
	},

	RawPacket: {
		{QPReset, QPReset}: {},
		{QPReset, QPInit}:  {required: QPAttrPort},

		{QPInit, QPReset}: {},
		{QPInit, QPErr}:   {},
		{QPInit, QPInit}:  {},
		{QPInit, QPRTR}:   {},

		{QPRTR, QPReset}: {},
		{QPRTR, QPErr}:   {},
		{QPRTR, QPRTS}:   {optional: QPAttrRateLimit},

		{QPRTS, QPReset}: {},
		{QPRTS, QPErr}:   {},
		{QPRTS, QPRTS}:   {optional: QPAttrRateLimit},
		{QPRTS, QPSQD}:   {},

		{QPSQD, QPReset}: {},
		{QPSQD, QPErr}:   {},
		{QPSQD, QPRTS}:   {},
		{QPSQD, QPSQD}:   {},

		{QPSQE, QPReset}: {},
		{QPSQE, QPErr}:   {},
		{QPSQE, QPRTS}:   {},

		{QPErr, QPReset}: {},
		{QPErr, QPErr}:   {},
	},

	XRCSend: {
		{QPReset, QPReset}: {},
		{QPReset, QPInit}:  {required: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},

		{QPInit, QPReset}: {},
		{QPInit, QPErr}:   {},
		{QPInit, QPInit}:  {optional: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPRTR}: {
			required: QPAttrAV | QPAttrPathMTU | QPAttrDestQPNum | QPAttrRQPSN,
			optional: QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex,
		},

		{QPRTR, QPReset}: {},
		{QPRTR, QPErr}:   {},
		{QPRTR, QPRTS}: {
			required: QPAttrTimeout | QPAttrRetryCount | QPAttrRNRRetryCount | QPAttrSQPSN | QPAttrMaxRdAtomic,
			optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrPathMigState,
		},

		{QPRTS, QPReset}: {},
		{QPRTS, QPErr}:   {},
		{QPRTS, QPRTS}:   {optional: QPAttrCurState | QPAttrAccess | QPAttrAltPath | QPAttrPathMigState},
		{QPRTS, QPSQD}:   {optional: QPAttrEnSQDAsyncNotify},

		{QPSQD, QPReset}: {},
		{QPSQD, QPErr}:   {},
		{QPSQD, QPRTS}:   {optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrPathMigState},
		{QPSQD, QPSQD}: {
			optional: QPAttrPort | QPAttrAV | QPAttrTimeout | QPAttrRetryCount | QPAttrRNRRetryCount | QPAttrMaxRdAtomic |
				QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex | QPAttrPathMigState,
		},

		{QPSQE, QPReset}: {},
		{QPSQE, QPErr}:   {},
		{QPSQE, QPRTS}:   {},

		{QPErr, QPReset}: {},
		{QPErr, QPErr}:   {},
	},

	XRCRecv: {
		{QPReset, QPReset}: {},
		{QPReset, QPInit}:  {required: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},

		{QPInit, QPReset}: {},
		{QPInit, QPErr}:   {},
		{QPInit, QPInit}:  {optional: QPAttrPKeyIndex | QPAttrPort | QPAttrAccess},
		{QPInit, QPRTR}: {
			required: QPAttrAV | QPAttrPathMTU | QPAttrDestQPNum | QPAttrRQPSN | QPAttrMaxDestRdAtomic | QPAttrMinRNRTimer,
			optional: QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex,
		},

		{QPRTR, QPReset}: {},
		{QPRTR, QPErr}:   {},
		{QPRTR, QPRTS}: {
			required: QPAttrTimeout | QPAttrSQPSN,
			optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrMinRNRTimer | QPAttrPathMigState,
		},

		{QPRTS, QPReset}: {},
		{QPRTS, QPErr}:   {},
		{QPRTS, QPRTS}:   {optional: QPAttrCurState | QPAttrAccess | QPAttrAltPath | QPAttrPathMigState | QPAttrMinRNRTimer},
		{QPRTS, QPSQD}:   {optional: QPAttrEnSQDAsyncNotify},

		{QPSQD, QPReset}: {},
		{QPSQD, QPErr}:   {},
		{QPSQD, QPRTS}:   {optional: QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrMinRNRTimer | QPAttrPathMigState},
		{QPSQD, QPSQD}: {
			optional: QPAttrPort | QPAttrAV | QPAttrTimeout | QPAttrMaxDestRdAtomic |
				QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex | QPAttrMinRNRTimer | QPAttrPathMigState,
		},

		{QPSQE, QPReset}: {},
		{QPSQE, QPErr}:   {},
		{QPSQE, QPRTS}:   {},

		{QPErr, QPReset}: {},
		{QPErr, QPErr}:   {},
	},
}

// moves indexes transitions by type and states.
var moves = func() (t [XRCRecv + 1][numQPStates][numQPStates]move) {
	for typ, all := range transitions {
		for s, a := range all {
			t[typ][s[0]][s[1]] = move{true, a}
		}
	}
	return t
}()

// move is a change of state, if it exists.
type move struct {
	ok bool
	attrs
}

const numQPStates = QPErr + 1

// TransitionError reports a change of a QP's attributes that its state does not allow. It is found
// without a system call. It wraps EINVAL.
type TransitionError struct {
	Type     QPType
	From, To QPState
	// Missing lists the attributes that the transition requires and the mask lacks. Invalid lists
	// the attributes of the mask that the transition does not take. If both are empty, the
	// transition does not exist.
	Missing, Invalid QPAttrMask
}

// Error lists the attributes.
func (e *TransitionError) Error() string {
	s := fmt.Sprintf("%v QP from %v to %v", e.Type, e.From, e.To)
	if e.Missing == 0 && e.Invalid == 0 {
		return s + ": no such transition"
	}
	var why []string
	if e.Missing != 0 {
		why = append(why, "missing "+e.Missing.String())
	}
	if e.Invalid != 0 {
		why = append(why, "invalid "+e.Invalid.String())
	}
	return s + ": " + strings.Join(why, ", ")
}

// Unwrap returns EINVAL, which the kernel would have returned.
func (e *TransitionError) Unwrap() error { return syscall.EINVAL }

// checkTransition returns a *TransitionError if a QP in state cur does not take
// the attributes that mask names.
func checkTransition(typ QPType, cur QPState, a *provider.QPAttr, mask QPAttrMask) error {
	from := cur
	if mask&QPAttrCurState != 0 {
		// The caller may know the current state better, because the device may have moved the QP.
		from = a.CurState
	}
	to := from
	if mask&QPAttrState != 0 {
		to = a.State
	}
	var t move
	if from < numQPStates && to < numQPStates {
		t = moves[typ][from][to]
	}
	missing, invalid := t.required&^mask, mask&^(t.required|t.optional|QPAttrState)
	switch {
	case !t.ok:
		return &TransitionError{Type: typ, From: from, To: to}
	case missing != 0 || invalid != 0:
		return &TransitionError{Type: typ, From: from, To: to, Missing: missing, Invalid: invalid}
	}
	return nil
}
