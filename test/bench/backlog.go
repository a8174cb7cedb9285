// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
)

// rxe answers a READ with all packets at once, which are 1024 of 1 MiB where an Ethernet
// frame has 1500 bytes. The kernel's queue between two virtual interfaces takes 1000: the
// end of each answer is lost, and comes when the READ is sent again, seconds later.
const (
	backlogFile = "/proc/sys/net/core/netdev_max_backlog"
	backlog     = 64 << 10
)

// raiseBacklog makes that queue long enough for 64 such READs at once.
func raiseBacklog() (restore func(), err error) {
	was, err := os.ReadFile(backlogFile)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(backlogFile, fmt.Append(nil, backlog), 0); err != nil {
		return nil, err
	}
	return func() { os.WriteFile(backlogFile, bytes.TrimSpace(was), 0) }, nil
}
