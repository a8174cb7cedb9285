// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

func mapPages(int, bool) ([]byte, error) { return nil, errors.ErrUnsupported }
