// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"math/bits"
	"strings"
	"syscall"
	"testing"
)

// TestTransitions checks every pair of states for each QP type. For each pair it omits or adds
// every attribute.
func TestTransitions(t *testing.T) {
	if len(transitions) != 6 {
		t.Errorf("%d QP types in the table, want 6", len(transitions))
	}
	for typ := range transitions {
		t.Run(typ.String(), func(t *testing.T) { testTransitions(t, typ) })
	}
}

func testTransitions(t *testing.T, typ QPType) {
	const all = QPAttrDestQPNum<<1 - 1
	// The transitions of the specification, chapter 10.3.1, as digits of states.
	legal := "00 01 10 16 11 12 20 26 23 30 36 33 34 40 46 43 44 50 56 53 60 66"
	for from := QPReset; from <= QPErr; from++ {
		for to := QPReset; to <= QPErr; to++ {
			name := string(rune('0'+from)) + string(rune('0'+to))
			rule, ok := transitions[typ][[2]QPState{from, to}]
			if want := strings.Contains(legal, name); ok != want {
				t.Errorf("transition from %v to %v exists = %v, want %v", from, to, ok, want)
			}
			attr := QPAttr{State: to}
			if !ok {
				err := checkTransition(typ, from, &attr, QPAttrState)
				var e *TransitionError
				if !errors.As(err, &e) || e.Missing|e.Invalid != 0 || !errors.Is(err, syscall.EINVAL) {
					t.Errorf("checkTransition from %v to %v = %v, want a TransitionError without attributes", from, to, err)
				}
				continue
			}
			if rule.required&rule.optional != 0 || (rule.required|rule.optional)&QPAttrState != 0 {
				t.Errorf("rule from %v to %v = %+v, want no attribute twice", from, to, rule)
			}
			if err := checkTransition(typ, from, &attr, QPAttrState|rule.required); err != nil {
				t.Errorf("checkTransition from %v to %v with the required attributes: %v", from, to, err)
			}
			if err := checkTransition(typ, from, &attr, QPAttrState|rule.required|rule.optional&^QPAttrCurState); err != nil {
				t.Errorf("checkTransition from %v to %v with all attributes: %v", from, to, err)
			}
			for m := all; m != 0; m &= m - 1 {
				a := QPAttrMask(1) << bits.TrailingZeros32(uint32(m))
				if a == QPAttrState || a == QPAttrCurState {
					continue
				}
				err := checkTransition(typ, from, &attr, QPAttrState|rule.required^a)
				var e *TransitionError
				errors.As(err, &e)
				switch {
				case rule.required&a != 0:
					if e == nil || e.Missing != a || e.Invalid != 0 || !strings.Contains(err.Error(), "missing "+a.String()) {
						t.Errorf("checkTransition from %v to %v without %v = %v, want it missing", from, to, a, err)
					}
				case rule.optional&a != 0:
					if e != nil {
						t.Errorf("checkTransition from %v to %v with %v = %v, want nil", from, to, a, err)
					}
				default:
					if e == nil || e.Invalid != a || e.Missing != 0 || !strings.Contains(err.Error(), "invalid "+a.String()) {
						t.Errorf("checkTransition from %v to %v with %v = %v, want it invalid", from, to, a, err)
					}
				}
			}
		}
	}
}

func TestTransitionCurState(t *testing.T) {
	// The device has moved the QP to SQE, and the library has not detected this.
	attr := QPAttr{State: QPRTS, CurState: QPRTR}
	mask := QPAttrState | QPAttrCurState
	if err := checkTransition(RC, QPRTS, &attr, mask); err == nil {
		t.Error("checkTransition with CurState RTR and without attributes succeeded")
	}
	if err := checkTransition(RC, QPRTS, &QPAttr{}, QPAttrAccess); err != nil {
		t.Errorf("checkTransition of a change of access in RTS: %v", err)
	}
}

// TestTransitionAttrs checks the differences between the types. Each row has one type's
// attributes of one transition, from table 91 of the specification.
func TestTransitionAttrs(t *testing.T) {
	for _, c := range []struct {
		typ                QPType
		from, to           QPState
		required, optional string
	}{
		{RC, QPReset, QPInit, "Access|PKeyIndex|Port", "0"},
		{UC, QPReset, QPInit, "Access|PKeyIndex|Port", "0"},
		{UD, QPReset, QPInit, "PKeyIndex|Port|QKey", "0"},
		{RC, QPInit, QPRTR, "AV|PathMTU|RQPSN|MinRNRTimer|MaxDestRdAtomic|DestQPNum", "Access|PKeyIndex|AltPath"},
		{UC, QPInit, QPRTR, "AV|PathMTU|RQPSN|DestQPNum", "Access|PKeyIndex|AltPath"},
		{UD, QPInit, QPRTR, "0", "PKeyIndex|QKey"},
		{RC, QPRTR, QPRTS, "Timeout|RetryCount|RNRRetryCount|MaxRdAtomic|SQPSN", "CurState|Access|AltPath|MinRNRTimer|PathMigState"},
		{UC, QPRTR, QPRTS, "SQPSN", "CurState|Access|AltPath|PathMigState"},
		{UD, QPRTR, QPRTS, "SQPSN", "CurState|QKey"},
		{RC, QPSQE, QPRTS, "0", "0"},
		{UC, QPSQE, QPRTS, "0", "CurState|Access"},
		{UD, QPSQE, QPRTS, "0", "CurState|QKey"},
		{UC, QPSQD, QPSQD, "0", "Access|PKeyIndex|AV|AltPath|PathMigState"},
		{UD, QPSQD, QPSQD, "0", "PKeyIndex|QKey"},
		{UC, QPRTS, QPRTS, "0", "CurState|Access|AltPath|PathMigState"},
		{UD, QPRTS, QPRTS, "0", "CurState|QKey"},
	} {
		rule := transitions[c.typ][[2]QPState{c.from, c.to}]
		if got := rule.required.String(); got != c.required {
			t.Errorf("required attributes of %v from %v to %v = %s, want %s", c.typ, c.from, c.to, got, c.required)
		}
		if got := rule.optional.String(); got != c.optional {
			t.Errorf("optional attributes of %v from %v to %v = %s, want %s", c.typ, c.from, c.to, got, c.optional)
		}
	}
}

func TestTransitionText(t *testing.T) {
	err := checkTransition(RC, QPReset, &QPAttr{State: QPInit}, QPAttrState|QPAttrPort|QPAttrQKey)
	want := "RC QP from RESET to INIT: missing Access|PKeyIndex, invalid QKey"
	if err == nil || err.Error() != want {
		t.Errorf("checkTransition = %v, want\n%s", err, want)
	}
}
