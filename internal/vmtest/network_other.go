// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vmtest

import (
	"errors"
	"time"
)

// TryDelay is for Linux only.
func (h Host) TryDelay(time.Duration) (undo func(), err error) { return nil, errors.ErrUnsupported }
