// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nldev

import "errors"

// Devices returns errors.ErrUnsupported.
func Devices() ([]Device, error) { return nil, errors.ErrUnsupported }

// Uverbs returns errors.ErrUnsupported.
func Uverbs(uint32) (Chardev, error) { return Chardev{}, errors.ErrUnsupported }

// Ports returns errors.ErrUnsupported.
func Ports(uint32) ([]Port, error) { return nil, errors.ErrUnsupported }

// SystemInfo returns errors.ErrUnsupported.
func SystemInfo() (System, error) { return System{}, errors.ErrUnsupported }
