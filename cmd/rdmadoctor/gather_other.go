// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

// gather returns errors.ErrUnsupported.
func gather() (*facts, error) { return nil, errors.ErrUnsupported }
