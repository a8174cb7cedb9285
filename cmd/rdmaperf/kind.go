// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"purerdma/verbs"
)

// kind is one of the tests, named as perftest's programs without "ib_".
type kind struct {
	Op      string           // "send", "write", "read" or "atomic".
	Latency bool             // One message at a time, with its duration.
	opcode  verbs.SendOpcode // opcode of the requests
	access  verbs.Access     // access to the memory of both sides
	echo    bool             // the peer sends each message back, and half of the round trip counts
}

// parseKind parses names such as "send_bw" and "read_lat".
func parseKind(name string) (kind, error) {
	op, how, _ := strings.Cut(name, "_")
	k := kind{Op: op, Latency: how == "lat"}
	if how != "bw" && how != "lat" {
		return k, fmt.Errorf("no test %q: want send, write, read or atomic with _bw or _lat", name)
	}
	switch op {
	case "send":
		k.opcode, k.access, k.echo = verbs.OpSend, verbs.LocalWrite, k.Latency
	case "write":
		k.opcode, k.access, k.echo = verbs.OpWrite, verbs.LocalWrite|verbs.RemoteWrite, k.Latency
	case "read":
		k.opcode, k.access = verbs.OpRead, verbs.LocalWrite|verbs.RemoteRead
	case "atomic":
		k.opcode, k.access = verbs.OpFetchAdd, verbs.LocalWrite|verbs.RemoteAtomic
	default:
		return k, fmt.Errorf("no test %q: want send, write, read or atomic with _bw or _lat", name)
	}
	return k, nil
}

// active reports whether the server takes part in the traffic.
func (k kind) active() bool { return k.echo || k.Op == "send" }

// String returns the name.
func (k kind) String() string {
	if k.Latency {
		return k.Op + "_lat"
	}
	return k.Op + "_bw"
}
