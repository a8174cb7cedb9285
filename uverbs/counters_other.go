// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package uverbs

import "errors"

// PortCounters returns errors.ErrUnsupported.
func (System) PortCounters(DeviceInfo, int) (map[string]uint64, error) {
	return nil, errors.ErrUnsupported
}
