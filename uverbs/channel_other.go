// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package uverbs

import "errors"

func readEvent(uintptr, []byte) (bool, error) { return false, errors.ErrUnsupported }
