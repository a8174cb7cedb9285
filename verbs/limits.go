// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"syscall"
)

// limit is a requested size and the maximum of the device.
type limit struct {
	name string
	want int
	max  int // 0 if the device does not report it
}

// checkLimits returns an error that names the first size that exceeds the device's. The kernel
// would return EINVAL for any of them.
func checkLimits(limits ...limit) error {
	for _, l := range limits {
		switch {
		case l.want < 0:
			return fmt.Errorf("%s is %d: %w", l.name, l.want, syscall.EINVAL)
		case l.max > 0 && l.want > l.max:
			return fmt.Errorf("%s is %d, the device has at most %d: %w", l.name, l.want, l.max, syscall.EINVAL)
		}
	}
	return nil
}

func (s *deviceContext) checkEntries(n int) error {
	if n == 0 {
		return fmt.Errorf("no entries: %w", syscall.EINVAL)
	}
	return checkLimits(limit{"Entries", n, s.attr.MaxCQE})
}

func (s *deviceContext) checkVector(v int) error {
	if n := s.attr.CompVectors; v < 0 || v > 0 && v >= n {
		return fmt.Errorf("completion vector %d, the device has %d, counted from 0: %w", v, n, syscall.EINVAL)
	}
	return nil
}

// checkPort checks the number of a local port. field is its name in the error.
func (s *deviceContext) checkPort(field string, port uint8) error {
	if n := len(s.links); port == 0 || int(port) > n {
		return fmt.Errorf("%s is %d, the device has %d, counted from 1: %w", field, port, n, syscall.EINVAL)
	}
	return nil
}

func (s *deviceContext) checkCap(c *QPCap) error {
	return checkLimits(
		limit{"Cap.SendWR", c.SendWR, s.attr.MaxQPWR},
		limit{"Cap.RecvWR", c.RecvWR, s.attr.MaxQPWR},
		limit{"Cap.SendSGE", c.SendSGE, s.attr.MaxSendSGE},
		limit{"Cap.RecvSGE", c.RecvSGE, s.attr.MaxRecvSGE},
		limit{"Cap.Inline", c.Inline, 0}, // the provider checks it
	)
}

func (s *deviceContext) checkSRQ(c *SRQConfig) error {
	return checkLimits(
		limit{"MaxWR", c.MaxWR, s.attr.MaxSRQWR},
		limit{"MaxSGE", c.MaxSGE, s.attr.MaxSRQSGE},
		limit{"Limit", c.Limit, c.MaxWR},
	)
}
