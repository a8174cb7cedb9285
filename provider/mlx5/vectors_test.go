// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"fmt"
	"testing"

	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// TestVectors compares the WQEs, doorbell records and registers that the device would read, the inputs
// of commands, and the program's completions with libmlx5's.
func TestVectors(t *testing.T) { replay.Run(t, libmlx5) }

// TestVectorsDetect checks that TestVectors detects a change of one bit.
func TestVectorsDetect(t *testing.T) { replay.Detects(t, libmlx5) }

// TestVectorsCover checks that the vectors contain each of the cases that they were recorded
// for. A new recording might miss some.
func TestVectorsCover(t *testing.T) {
	need := map[string]int{
		"random lists": 2000, "UAR=legacy": 1, "UAR=": 1, "no BlueFlame": 1,
		"BlueFlame of 256 bytes": 10, "inline of more": 10, "BlueFlame that wraps": 10, "WQE that wraps, not in BlueFlame": 10,
		"list that fails after some": 6, "full": 1, "more than 65536 requests": 1, "65536 receives of an SRQ": 1, "past 2^24 completions": 100, "single stores": 60,
		"scatter 32": 10, "scatter 64": 10, "CQE of 128 bytes": 100, "timestamp": 50, "compression asked": 1, "resized": 8, "armed": 10,
		"SRQ receives": 100, "page faults": 10, "DCI": 1, "DCT": 1, "ibv_bind_mw": 3,
		"ECE granted": 100, "no ECE granted": 50, "ECE refused": 1,
	}
	for _, typ := range []string{"RC", "UC", "UD", "RAW_PACKET", "XRC_SEND", "XRC_RECV"} {
		need["QP "+typ] = 1
	}
	for _, op := range []string{"SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "WRITE", "WRITE_WITH_IMM", "READ", "COMPARE_SWAP", "FETCH_ADD", "LOCAL_INV", "BIND_MW"} {
		for flags := range 8 {
			need[fmt.Sprintf("%s, flags %d", op, flags)] = 1
		}
	}
	need["TSO, flags 2"] = 1
	for _, syndrome := range []byte{0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22, 0x77} {
		need[fmt.Sprintf("syndrome %#x of opcode 13", syndrome)] = 1
		need[fmt.Sprintf("syndrome %#x of opcode 14", syndrome)] = 1
	}
	replay.Covers(t, libmlx5, need, cover)
}

// cover counts the cases in a record.
func cover(open, r *vector.Record, count func(what string, is bool)) {
	switch r.Type {
	case "open":
		count("UAR="+open.Env["FAKEUV_UAR"], true)
		count("no BlueFlame", open.Env["FAKEUV_BF"] == "0")
	case "qp":
		count("QP "+unquote(r.Kind), true)
		count(unquote(r.Kind), true)
	case "cq":
		count("compression asked", r.Compress > 0)
	case "resize":
		count("resized", r.RC == 0)
	case "set_ece":
		count("ECE refused", r.RC != 0)
	case "query_ece":
		count("ECE granted", r.Options != 0)
		count("no ECE granted", r.Options == 0)
	case "arm":
		count("armed", true)
	case "bind":
		count("ibv_bind_mw", true)
	case "reposted":
		count("page faults", true)
	case "many":
		count("more than 65536 requests", r.On == "" && r.Count > 1<<16)
		count("65536 receives of an SRQ", r.On != "" && r.Count >= 1<<16)
	case "recv":
		count("SRQ receives", len(r.List) > 0)
	case "send":
		coverSend(r, count)
	case "poll":
		count("past 2^24 completions", r.Name == "2^24_cqes" && r.CI < 1000)
		for _, e := range r.CQEs {
			last := e.Bytes[len(e.Bytes)-64:]
			op, format := last[63]>>4, last[63]>>2&3
			count(fmt.Sprintf("syndrome %#x of opcode %d", last[55], op), op == 13 || op == 14)
			count("scatter 32", format == 1 && op < 13)
			count("scatter 64", format == 2 && op < 13)
			count("CQE of 128 bytes", len(e.Bytes) == 128)
		}
		for _, w := range r.WCs {
			count("timestamp", w.TS != nil)
		}
	}
}

func coverSend(r *vector.Record, count func(what string, is bool)) {
	count("random lists", r.Name == "random")
	count("single stores", len(r.Stores) > 1)
	count("list that fails after some", r.RC != 0 && r.Bad > 0)
	count("full", r.Name == "full" && r.RC != 0)
	for _, w := range r.WRs {
		count(fmt.Sprintf("%s, flags %d", w.Op, w.Flags&7), r.RC == 0 && r.API == "")
	}
	if len(r.WRs) != 1 || r.RC != 0 || len(r.UAR) != 1 {
		return
	}
	copied, size := len(r.UAR[0].Bytes) > 8, int(r.WQE[7]&0x3f)*16
	count("BlueFlame of 256 bytes", copied && size == 256)
	count("inline of more", !copied && size == 272 && replay.Inlined(r.WRs[0]))
	wraps := r.Name == "wrap_blueflame" || r.Name == "wrap_elements"
	blocks := uint32(len(r.WQE) / 64)
	wraps = wraps && r.At%128+blocks > 128
	count("BlueFlame that wraps", wraps && copied)
	count("WQE that wraps, not in BlueFlame", wraps && !copied)
}
