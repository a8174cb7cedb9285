// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
)

// rxe sends all packets of the answer to a READ at once. With Ethernet frames of 1500 bytes, 1 MiB has 1024
// packets. The kernel's queue between two virtual interfaces takes 1000. The end of each answer is lost, and
// arrives only when the READ is sent again, seconds later.
const (
	backlogFile = "/proc/sys/net/core/netdev_max_backlog"
	backlog     = 64 << 10
)

// raiseBacklog makes this queue long enough for 64 simultaneous READs of 1 MiB.
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
