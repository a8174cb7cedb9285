// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"syscall"
)

// QPStateError reports that the state of a QP does not allow posting. It wraps EINVAL.
type QPStateError struct {
	State QPState
}

func (e *QPStateError) Error() string {
	return fmt.Sprintf("QP in state %v: %v", e.State, syscall.EINVAL)
}

// Unwrap returns EINVAL.
func (e *QPStateError) Unwrap() error { return syscall.EINVAL }
