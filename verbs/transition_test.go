// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"math/bits"
	"strings"
	"syscall"
	"testing"
)

// TestTransitions goes, for each type, through every pair of states and, for each
// pair, every attribute: left out, added.
func TestTransitions(t *testing.T) {
	if len(transitions) != 6 {
		t.Errorf("%d types", len(transitions))
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
				t.Errorf("%v to %v: exists %v, want %v", from, to, ok, want)
			}
			attr := QPAttr{State: to}
			if !ok {
				err := checkTransition(typ, from, &attr, QPAttrState)
				var e *TransitionError
				if !errors.As(err, &e) || e.Missing|e.Invalid != 0 || !errors.Is(err, syscall.EINVAL) {
					t.Errorf("%v to %v: %v", from, to, err)
				}
				continue
			}
			if rule.required&rule.optional != 0 || (rule.required|rule.optional)&QPAttrState != 0 {
				t.Errorf("%v to %v: rule %+v", from, to, rule)
			}
			if err := checkTransition(typ, from, &attr, QPAttrState|rule.required); err != nil {
				t.Errorf("%v to %v with what is required: %v", from, to, err)
			}
			if err := checkTransition(typ, from, &attr, QPAttrState|rule.required|rule.optional&^QPAttrCurState); err != nil {
				t.Errorf("%v to %v with everything: %v", from, to, err)
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
						t.Errorf("%v to %v without %v: %v", from, to, a, err)
					}
				case rule.optional&a != 0:
					if e != nil {
						t.Errorf("%v to %v with %v: %v", from, to, a, err)
					}
				default:
					if e == nil || e.Invalid != a || e.Missing != 0 || !strings.Contains(err.Error(), "invalid "+a.String()) {
						t.Errorf("%v to %v with %v: %v", from, to, a, err)
					}
				}
			}
		}
	}
}

func TestTransitionCurState(t *testing.T) {
	// The device has moved the QP to SQE, which we did not see.
	attr := QPAttr{State: QPRTS, CurState: QPRTR}
	mask := QPAttrState | QPAttrCurState
	if err := checkTransition(RC, QPRTS, &attr, mask); err == nil {
		t.Error("RTR to RTS needs attributes, and CurState says RTR")
	}
	if err := checkTransition(RC, QPRTS, &QPAttr{}, QPAttrAccess); err != nil {
		t.Errorf("a change of access in RTS, without a state: %v", err)
	}
}

// TestTransitionAttrs holds what distinguishes the types: each row is one type's
// attributes of one transition, as the specification's table 91 has them.
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
			t.Errorf("%v %v to %v requires %s, want %s", c.typ, c.from, c.to, got, c.required)
		}
		if got := rule.optional.String(); got != c.optional {
			t.Errorf("%v %v to %v takes %s, want %s", c.typ, c.from, c.to, got, c.optional)
		}
	}
}

func TestTransitionText(t *testing.T) {
	err := checkTransition(RC, QPReset, &QPAttr{State: QPInit}, QPAttrState|QPAttrPort|QPAttrQKey)
	want := "RC QP from RESET to INIT: missing Access|PKeyIndex, invalid QKey"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
