// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre_test

import (
	"fmt"
	"testing"

	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// TestVectors compares the requests, search tables and doorbells that the adapter would read, the inputs of commands, and
// the program's completions with libbnxt_re's.
func TestVectors(t *testing.T) { replay.Run(t, libbnxtre) }

// TestVectorsDetect checks that TestVectors detects a change of one bit. The newest library moves QPs by the extended
// command, whose number is different.
func TestVectorsDetect(t *testing.T) {
	replay.Detects(t, libbnxtre, "modify kernel 2 of {Object:0 Method:0 Write:2147483674}")
}

// TestVectorsCover checks that the vectors contain each of the cases that they were recorded for.
func TestVectorsCover(t *testing.T) {
	need := map[string]int{
		"random lists": 2000, "list that fails after some": 20, "full send": 4, "full recv": 4, "request that wraps": 20, "more than 2^16 requests": 6,
		"armed": 800, "armed with a toggle": 300, "inline": 1000, "pushed": 200, "datagram": 300, "SRQ": 800, "armed SRQ": 10, "changed size": 40,
		"deferred doorbell": 1000, "doorbell of a CQ": 200, "several completions of an entry": 200, "partial poll": 100, "end of a QP": 20, "flushed": 200,
	}
	for _, chip := range []string{"p4", "p4,pow2", "p5,push", "p5,paced", "p5,msn", "p7", "p7,push"} {
		need["chip "+chip] = 12
	}
	for _, op := range []string{"SEND", "SEND_WITH_IMM", "WRITE", "WRITE_WITH_IMM", "READ", "COMPARE_SWAP", "FETCH_ADD"} {
		for flags := range 8 {
			need[fmt.Sprintf("%s, flags %d", op, flags)] = 9
		}
	}
	for status := range 12 {
		need[fmt.Sprintf("status %d of a request", status)] = 9
	}
	for status := range 9 {
		need[fmt.Sprintf("status %d of a receive", status)] = 9
	}
	replay.Covers(t, libbnxtre, need, cover)
}

// cover counts the cases in a record.
func cover(open, r *vector.Record, count func(what string, is bool)) {
	switch r.Type {
	case "open":
		count("chip "+open.Env["FAKEUV_CHIP"], true)
	case "arm":
		count("armed", true)
		count("armed with a toggle", r.Arm != 0)
	case "resize":
		count("changed size", r.RC == 0)
	case "many":
		count("more than 2^16 requests", r.Count > 65000)
	case "recv":
		count("full recv", r.Name == "full" && r.RC != 0)
		count("SRQ", r.Name == "srq")
		count("armed SRQ", len(r.UAR) > 0 && r.UAR[0].Bytes[7]>>4 == 3)
	case "send":
		coverSend(r, count)
	case "poll":
		count("deferred doorbell", r.N > 0 && len(r.UAR) == 0)
		count("doorbell of a CQ", len(r.UAR) > 0)
		count("several completions of an entry", r.N > len(r.CQEs) && len(r.CQEs) > 0 && r.Name == "random")
		count("partial poll", r.Name == "rest" && r.N > 0)
		for _, e := range r.CQEs {
			switch e.Bytes[24] >> 1 & 15 {
			case 0:
				count(fmt.Sprintf("status %d of a request", e.Bytes[25]), true)
			case 1:
				count(fmt.Sprintf("status %d of a receive", e.Bytes[25]), true)
			case 14:
				count("end of a QP", true)
			}
		}
		for _, w := range r.WCs {
			count("flushed", w.Status != nil && *w.Status == 5)
		}
	}
}

func coverSend(r *vector.Record, count func(what string, is bool)) {
	count("random lists", r.Name == "random")
	count("full send", r.Name == "full" && r.RC != 0)
	count("list that fails after some", r.RC != 0 && r.Bad > 0)
	count("pushed", len(r.UAR) > 1)
	count("datagram", r.Name == "ud")
	count("request that wraps", r.Name == "wrap" && r.At+uint32(len(r.WQE)/slot) > 1280)
	for _, w := range r.WRs {
		count("inline", replay.Inlined(w))
		count(fmt.Sprintf("%s, flags %d", w.Op, w.Flags&7), r.RC == 0)
	}
}
