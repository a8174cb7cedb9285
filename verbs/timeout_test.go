// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"purerdma/verbs"
)

// TestAckTimeoutCodes covers rounding, both ends of the range, and values beyond the range.
func TestAckTimeoutCodes(t *testing.T) {
	const unit = 4096 * time.Nanosecond
	for _, tc := range []struct {
		d    time.Duration
		want uint8
	}{
		{verbs.NoTimeout, 0},
		{1, 1},
		{unit, 1},
		{2 * unit, 1},
		{2*unit + 1, 2},
		{4 * unit, 2},
		{4 * time.Millisecond, 10},
		{67 * time.Millisecond, 14},
		{unit << 14, 14},
		{unit<<14 + 1, 15},
		{time.Second, 18},
		{unit<<30 + 1, 31},
		{unit << 31, 31},
	} {
		if got, err := verbs.EncodeAckTimeout(tc.d); got != tc.want || err != nil {
			t.Errorf("EncodeAckTimeout(%v) = %d, %v, want %d, nil", tc.d, got, err, tc.want)
		}
	}
	for code := range uint8(32) {
		d := verbs.DecodeAckTimeout(code)
		if want := unit << code; code > 0 && d != want {
			t.Errorf("DecodeAckTimeout(%d) = %v, want %v", code, d, want)
		}
		if got, err := verbs.EncodeAckTimeout(d); got != code || err != nil {
			t.Errorf("EncodeAckTimeout(DecodeAckTimeout(%d)) = %d, %v, want the same code", code, got, err)
		}
	}
	for _, d := range []time.Duration{0, -2, -time.Hour, unit<<31 + 1, math.MaxInt64, verbs.DecodeAckTimeout(32), verbs.DecodeAckTimeout(255)} {
		if got, err := verbs.EncodeAckTimeout(d); !errors.Is(err, verbs.ErrTimeoutRange) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("EncodeAckTimeout(%v) = %d, %v, want %v", d, got, err, verbs.ErrTimeoutRange)
		}
	}
}

// TestRNRTimerCodes compares the codes with enum ib_rnr_timeout of the kernel's ib_verbs.h,
// whose names contain the milliseconds.
func TestRNRTimerCodes(t *testing.T) {
	for code, ms := range []float64{
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	} {
		code, want := uint8(code), time.Duration(math.Round(ms*1e6))
		d := verbs.DecodeRNRTimer(code)
		if d != want {
			t.Errorf("DecodeRNRTimer(%d) = %v, want %v", code, d, want)
		}
		if got, err := verbs.EncodeRNRTimer(d); got != code || err != nil {
			t.Errorf("EncodeRNRTimer(%v) = %d, %v, want %d", d, got, err, code)
		}
		if got, err := verbs.EncodeRNRTimer(d - 1); got != code || err != nil {
			t.Errorf("EncodeRNRTimer(%v) = %d, %v, want %d", d-1, got, err, code)
		}
	}
	if got, err := verbs.EncodeRNRTimer(1); got != 1 || err != nil {
		t.Errorf("EncodeRNRTimer(1ns) = %d, %v, want 1", got, err)
	}
	for _, d := range []time.Duration{0, -1, verbs.DecodeRNRTimer(0) + 1, math.MaxInt64} {
		if got, err := verbs.EncodeRNRTimer(d); !errors.Is(err, verbs.ErrTimeoutRange) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("EncodeRNRTimer(%v) = %d, %v, want %v", d, got, err, verbs.ErrTimeoutRange)
		}
	}
}
