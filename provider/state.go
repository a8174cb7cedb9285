// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"syscall"
)

// StateError says that a QP is in a state in which nothing can be posted to it.
// It wraps EINVAL.
type StateError struct {
	State QPState
}

func (e *StateError) Error() string {
	return fmt.Sprintf("QP in state %v: %v", e.State, syscall.EINVAL)
}

// Unwrap returns EINVAL.
func (e *StateError) Unwrap() error { return syscall.EINVAL }
