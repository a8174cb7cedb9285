// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hwcheck

// These checks use Linux. Other systems have no RDMA devices that the library supports.
var hostChecks, groupChecks, nodeChecks []Check

func (*trial) nearDevice() {}

func (*trial) notePTP(func() stamp) {}

// frameSocket does not exist on other systems.
type frameSocket struct{}

func (*frameSocket) close() error { return nil }

// frameReceiver does not exist on other systems.
type frameReceiver struct{}

func (*frameReceiver) close() error { return nil }
