// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"math/bits"
	"sort"
	"syscall"
	"time"
)

// NoTimeout is the ACK timeout of a QP that waits for an acknowledgement forever.
const NoTimeout time.Duration = -1

// ErrTimeoutRange is the error of a duration that has no code in QPAttr. It wraps EINVAL.
var ErrTimeoutRange = fmt.Errorf("the duration is out of range: %w", syscall.EINVAL)

// ackTimeoutUnit is the ACK timeout of code 0, if 0 did not mean no timeout.
const ackTimeoutUnit = 4096 * time.Nanosecond

// The codes of ACK timeouts have five bits.
const (
	minAckTimeoutCode = 1
	maxAckTimeoutCode = 31
)

// EncodeAckTimeout returns the code of an ACK timeout (QPAttr.Timeout and AltTimeout): n for
// 4.096 us * 2^n (InfiniBand Architecture Specification 1, 9.7.6.1.3; ibv_modify_qp(3)). It
// rounds up to the next of 8.192 us to 2 h 26 min. NoTimeout has code 0. The error for every
// other duration is ErrTimeoutRange.
func EncodeAckTimeout(d time.Duration) (uint8, error) {
	if d == NoTimeout {
		return 0, nil
	}
	if longest := DecodeAckTimeout(maxAckTimeoutCode); d <= 0 || d > longest {
		return 0, outOfRange("ACK timeout", d, longest)
	}
	units := uint64((d + ackTimeoutUnit - 1) / ackTimeoutUnit)
	return max(minAckTimeoutCode, uint8(bits.Len64(units-1))), nil
}

// DecodeAckTimeout returns the ACK timeout of a code, NoTimeout for 0. For codes above 31, which do
// not exist, it returns durations that EncodeAckTimeout refuses.
func DecodeAckTimeout(code uint8) time.Duration {
	if code == 0 {
		return NoTimeout
	}
	return ackTimeoutUnit << min(code, 50)
}

// rnrTimers holds the RNR NAK timers by code, in units of 10 us (InfiniBand Architecture
// Specification 1, 9.7.5.2.8, table of the RNR NAK timer field, ib_rnr_timeout in ib_verbs.h). Code
// 0 is the longest.
var rnrTimers = [32]time.Duration{
	65536, 1, 2, 3, 4, 6, 8, 12,
	16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

const rnrTimerUnit = 10 * time.Microsecond

// EncodeRNRTimer returns the code of an RNR NAK timer (QPAttr.MinRNRTimer). The timer is the time
// that a peer waits before it repeats a send that found no posted receive. It rounds up to the next
// of the 32 possible timers, which are from 10 us to 655.36 ms. The error for a duration that is
// longer or not positive is ErrTimeoutRange.
func EncodeRNRTimer(d time.Duration) (uint8, error) {
	if longest := DecodeRNRTimer(0); d <= 0 || d > longest {
		return 0, outOfRange("RNR NAK timer", d, longest)
	}
	code := 1 + sort.Search(len(rnrTimers)-1, func(i int) bool { return rnrTimers[1+i]*rnrTimerUnit >= d })
	return uint8(code % len(rnrTimers)), nil
}

// DecodeRNRTimer returns the RNR NAK timer of a code, which has five bits.
func DecodeRNRTimer(code uint8) time.Duration {
	return rnrTimers[int(code)%len(rnrTimers)] * rnrTimerUnit
}

func outOfRange(what string, d, longest time.Duration) error {
	return fmt.Errorf("%s of %v, at most %v is possible: %w", what, d, longest, ErrTimeoutRange)
}
