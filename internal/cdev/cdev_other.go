// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cdev

import "errors"

func open(string) (int, error) { return -1, errors.ErrUnsupported }
func setNonblock(int) error    { return errors.ErrUnsupported }
func closeFD(int)              {}

func writeAll(uintptr, []byte, Mode) error { return errors.ErrUnsupported }

func wakeMonitor() {}
