// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// capIPCLock is the number of CAP_IPC_LOCK (linux/capability.h).
const capIPCLock = 14

// parseLimits finds RLIMIT_MEMLOCK in the text of /proc/self/limits (proc(5)).
func parseLimits(text string) (*memlock, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Max locked memory")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 {
			continue
		}
		soft, err1 := parseLimit(fields[0])
		hard, err2 := parseLimit(fields[1])
		return &memlock{soft: soft, hard: hard}, errors.Join(err1, err2)
	}
	return nil, errors.New("/proc/self/limits has no such limit")
}

func parseLimit(s string) (uint64, error) {
	if s == "unlimited" {
		return unlimited, nil
	}
	return strconv.ParseUint(s, 10, 64)
}

// parseIPCLock finds CAP_IPC_LOCK among the effective capabilities in the text of
// /proc/self/status.
func parseIPCLock(text string) bool {
	for line := range strings.Lines(text) {
		if caps, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(caps), 16, 64)
			return err == nil && set>>capIPCLock&1 != 0
		}
	}
	return false
}

// initialUsers reports whether the text of a /proc/self/uid_map belongs to the initial user
// namespace (user_namespaces(7)). Capabilities of another namespace do not lift this limit.
func initialUsers(text string) bool {
	return slices.Equal(strings.Fields(text), []string{"0", "0", "4294967295"})
}
