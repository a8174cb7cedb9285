// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"syscall"
)

// QPStateError says that a QP is in a state in which nothing can be posted to it.
// It wraps EINVAL.
type QPStateError struct {
	State QPState
}

func (e *QPStateError) Error() string {
	return fmt.Sprintf("QP in state %v: %v", e.State, syscall.EINVAL)
}

// Unwrap returns EINVAL.
func (e *QPStateError) Unwrap() error { return syscall.EINVAL }
