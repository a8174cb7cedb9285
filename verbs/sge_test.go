// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"syscall"
	"testing"
)

// TestElementLimits checks the elements of a device whose limits for requests and receives differ.
func TestElementLimits(t *testing.T) {
	s := &deviceContext{attr: DeviceAttr{MaxSGE: 1, MaxSendSGE: 6, MaxRecvSGE: 1}}
	if c := (QPConfig{}).withDefaults(&s.attr).Cap; c.SendSGE != 2 || c.RecvSGE != 1 {
		t.Errorf("withDefaults() = %d and %d elements, want 2 and 1", c.SendSGE, c.RecvSGE)
	}
	if c := (QPConfig{}).withDefaults(new(DeviceAttr)).Cap; c.SendSGE != 2 || c.RecvSGE != 2 {
		t.Errorf("withDefaults() without limits = %d and %d elements, want 2 and 2", c.SendSGE, c.RecvSGE)
	}
	if err := s.checkCap(&QPCap{SendSGE: 6, RecvSGE: 1}); err != nil {
		t.Errorf("checkCap(6, 1) = %v, want nil", err)
	}
	for _, c := range []QPCap{{SendSGE: 7}, {RecvSGE: 2}} {
		if err := s.checkCap(&c); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("checkCap(%d, %d) = %v, want EINVAL", c.SendSGE, c.RecvSGE, err)
		}
	}
}
