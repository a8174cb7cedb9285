// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// benchIdle measures the CPU time of an idle persistent server. A client connects and leaves first, so that
// all parts of the server have run.
func benchIdle(ctx context.Context, e *env) error {
	const idle = 5 * time.Second
	r, err := startRping(ctx, e, e.program("rping"), 7176)
	if err != nil {
		return err
	}
	defer r.stop()
	time.Sleep(time.Second)
	before, err := cpuTime(r.server.Process.Pid)
	if err != nil {
		return err
	}
	time.Sleep(idle)
	after, err := cpuTime(r.server.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("  %v of CPU time in %v\n", after-before, idle)
	return nil
}

// cpuTime reads the user and system time of a process, which the kernel counts
// in hundredths of a second.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, which may contain blanks.
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
