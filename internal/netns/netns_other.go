// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netns

import (
	"errors"
	"fmt"
)

// Do runs fn. Only Linux has network namespaces.
func Do(ns string, fn func() error) error {
	if ns == "" {
		return fn()
	}
	return fmt.Errorf("network namespace %s: %w", path(ns), errors.ErrUnsupported)
}
