// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cdev

import "errors"

func open(string) (int, error)    { return -1, errors.ErrUnsupported }
func setNonblock(int) error       { return errors.ErrUnsupported }
func closeFD(int)                 {}
func write(uintptr, []byte) error { return errors.ErrUnsupported }

func writeQuick(fd uintptr, b []byte) error { return write(fd, b) }

func writeUndisturbed(fd uintptr, b []byte) error { return write(fd, b) }

func wakeMonitor() {}
