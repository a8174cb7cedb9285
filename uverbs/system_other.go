// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package uverbs

import "errors"

// Devices returns errors.ErrUnsupported.
func (System) Devices() ([]DeviceInfo, error) { return nil, errors.ErrUnsupported }

// Open returns errors.ErrUnsupported.
func (System) Open(DeviceInfo) (Transport, error) { return nil, errors.ErrUnsupported }

// Ports returns errors.ErrUnsupported.
func (System) Ports(DeviceInfo) ([]PortInfo, error) { return nil, errors.ErrUnsupported }

// Info returns errors.ErrUnsupported.
func (System) Info() (SystemInfo, error) { return SystemInfo{}, errors.ErrUnsupported }
