// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"math/bits"
	"syscall"
	"testing"

	"purerdma/verbs"
)

// TestVMTransitions moves a QP of each type from RESET to RTS with the attributes that the
// table of transitions requires. A step without one of them, with an invalid attribute, or to a
// state that is not the next one is refused. The library refuses it before a command, and the
// kernel also refuses it.
func TestVMTransitions(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			rt := vmWire(t)
			e, peer := newEndWith(t, rt.h, rt.a, verbs.QPConfig{Type: typ}), newEndWith(t, rt.h, rt.b, verbs.QPConfig{Type: typ})
			strange := verbs.QPAttrQKey
			if typ == verbs.UD {
				strange = verbs.QPAttrAccess
			}
			refuses := func(a verbs.QPAttr, mask, missing, invalid verbs.QPAttrMask) {
				t.Helper()
				from := e.qp.State()
				var te *verbs.TransitionError
				if err := e.qp.Modify(&a, mask); !errors.As(err, &te) || te.Missing != missing || te.Invalid != invalid || te.From != from || te.To != a.State {
					t.Errorf("Modify from %v to %v with %v = %v, want a TransitionError with missing %v and invalid %v", from, a.State, mask, err, missing, invalid)
				}
				// The provider runs the command without these checks.
				if err := e.qp.Provider().Modify(&a, mask); !errors.Is(err, syscall.EINVAL) {
					t.Errorf("command from %v to %v with %v = %v, want EINVAL", from, a.State, mask, err)
				}
				if got, err := e.qp.Query(); err != nil || got.State != from || e.qp.State() != from {
					t.Errorf("State(), Query = %v, %v, %v, want %v", e.qp.State(), got.State, err, from)
				}
			}
			for range 2 {
				for _, step := range []func() (verbs.QPAttr, verbs.QPAttrMask){e.toInit, func() (verbs.QPAttr, verbs.QPAttrMask) { return e.toRTR(peer) }, e.toRTS} {
					a, mask := step()
					for _, to := range []verbs.QPState{verbs.QPRTR, verbs.QPRTS, verbs.QPSQD, verbs.QPSQE} {
						if to != a.State && to != e.qp.State() {
							refuses(verbs.QPAttr{State: to}, verbs.QPAttrState, 0, 0)
						}
					}
					for m := mask &^ verbs.QPAttrState; m != 0; m &= m - 1 {
						one := verbs.QPAttrMask(1) << bits.TrailingZeros32(uint32(m))
						refuses(a, mask&^one, one, 0)
					}
					refuses(a, mask|strange, 0, strange)
					modify(t, e.qp, a, mask)
					if got, err := e.qp.Query(); err != nil || got.State != a.State {
						t.Errorf("Query after Modify = %v, %v, want %v, nil", got.State, err, a.State)
					}
				}
				refuses(verbs.QPAttr{State: verbs.QPInit}, verbs.QPAttrState, 0, 0)
				modify(t, e.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
				refuses(verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState, 0, 0)
				modify(t, e.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
			}
		})
	}
}
