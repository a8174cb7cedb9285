// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"purerdma/abi"
)

// monitorSocket is a socket of package netlink of vishvananda in the multicast group of events.
type monitorSocket struct{ s *nl.NetlinkSocket }

func subscribe() (eventSocket, error) {
	s, err := nl.Subscribe(unix.NETLINK_RDMA, abi.RDMA_NL_GROUP_NOTIFY)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	return &monitorSocket{s}, nil
}

func (s *monitorSocket) close() { s.s.Close() }

func (s *monitorSocket) receive() ([]value, error) {
	msgs, from, err := s.s.Receive()
	if err != nil {
		return nil, receiveError(err)
	}
	if from.Pid != nl.PidKernel {
		return nil, nil
	}
	want := (&request{cmd: abi.RDMA_NLDEV_CMD_MONITOR}).messageType()
	var values []value
	for _, m := range msgs {
		if int(m.Header.Type) == want {
			values = append(values, m.Data)
		}
	}
	return values, nil
}
