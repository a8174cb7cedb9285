// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"purerdma/verbs"
)

// kind is one of the tests, by the name that perftest's program has after "ib_".
type kind struct {
	Op      string           // what is measured: "send", "write", "read" or "atomic"
	Latency bool             // one at a time, and how long it takes
	opcode  verbs.SendOpcode // of the requests
	access  verbs.Access     // to the memory of both sides
	echo    bool             // the peer answers in kind, half of a round counts
}

// parseKind knows the names: "send_bw", "read_lat".
func parseKind(name string) (kind, error) {
	op, how, _ := strings.Cut(name, "_")
	k := kind{Op: op, Latency: how == "lat"}
	if how != "bw" && how != "lat" {
		return k, fmt.Errorf("no test %q: there are send, write, read and atomic, each with _bw and _lat", name)
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
		return k, fmt.Errorf("no test %q: there are send, write, read and atomic, each with _bw and _lat", name)
	}
	return k, nil
}

// active says whether the server takes part.
func (k kind) active() bool { return k.echo || k.Op == "send" }

// String returns the name.
func (k kind) String() string {
	if k.Latency {
		return k.Op + "_lat"
	}
	return k.Op + "_bw"
}
