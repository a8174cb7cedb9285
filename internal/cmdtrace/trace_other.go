// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cmdtrace

import "errors"

func record(string, []string) (int, error) { return 0, errors.ErrUnsupported }
