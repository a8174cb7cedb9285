// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

func pin(int) error { return errors.ErrUnsupported }
