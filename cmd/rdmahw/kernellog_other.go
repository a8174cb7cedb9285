// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// kernelLog is empty, because only Linux has a log in this form.
type kernelLog struct{}

func openKernelLog() *kernelLog { return &kernelLog{} }

func (*kernelLog) close() {}

func (*kernelLog) read(string) []byte { return nil }
