// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma_test

import (
	"fmt"
	"testing"

	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// TestVectors compares the requests, doorbell records and registers that the adapter would read, the inputs
// of commands, and the program's completions with liberdma's.
func TestVectors(t *testing.T) { replay.Run(t, liberdma) }

// TestVectorsDetect checks that TestVectors detects a change of one bit.
func TestVectorsDetect(t *testing.T) { replay.Detects(t, liberdma) }

// TestVectorsCover checks that the vectors contain each of the cases that they were recorded for.
func TestVectorsCover(t *testing.T) {
	need := map[string]int{
		"random lists": 400, "SDB=": 1, "SDB=entry": 1, "SDB=shared": 1, "list that fails after some": 6, "full send": 2, "full recv": 2,
		"request that wraps": 20, "more than 65536 blocks": 2, "past 2^24 completions": 2, "single stores": 60, "armed": 600, "events": 100, "inline": 100,
	}
	for _, op := range []string{"SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "WRITE", "WRITE_WITH_IMM", "READ", "COMPARE_SWAP", "FETCH_ADD"} {
		for flags := range 8 {
			need[fmt.Sprintf("%s, flags %d", op, flags)] = 1
		}
	}
	for status := range 20 {
		for queue := range 2 {
			need[fmt.Sprintf("status %d of queue %d", status, queue)] = 4
		}
	}
	for _, op := range []byte{4, 5, 6, 12} {
		need[fmt.Sprintf("receive %d", op)] = 10
	}
	replay.Covers(t, liberdma, need, cover)
}

// cover counts the cases in a record.
func cover(open, r *vector.Record, count func(what string, is bool)) {
	switch r.Type {
	case "open":
		count("SDB="+open.Env["FAKEUV_SDB"], true)
	case "arm":
		count("armed", true)
	case "event":
		count("events", true)
	case "many":
		count("more than 65536 blocks", r.Count > 32000 && open.Name == "wrap")
		count("past 2^24 completions", r.Count > 1<<23)
	case "recv":
		count("full recv", r.Name == "full" && r.RC != 0)
		count("single stores", len(r.Stores) > 1)
	case "send":
		count("random lists", r.Name == "random")
		count("full send", r.Name == "full" && r.RC != 0)
		count("single stores", len(r.Stores) > 1)
		count("list that fails after some", r.RC != 0 && r.Bad > 0)
		for _, w := range r.WRs {
			count("inline", replay.Inlined(w))
			count(fmt.Sprintf("%s, flags %d", w.Op, w.Flags&7), r.RC == 0)
		}
		count("request that wraps", open.Name == "wrap" && r.At%32+uint32(len(r.WQE)/32) > 32)
	case "poll":
		for _, e := range r.CQEs {
			count(fmt.Sprintf("status %d of queue %d", e.Bytes[3], e.Bytes[2]), true)
			count(fmt.Sprintf("receive %d", e.Bytes[1]), e.Bytes[2] == 1)
		}
	}
}
