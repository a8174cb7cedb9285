// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw_test

import (
	"testing"

	"purerdma/abi"
	"purerdma/provider/siw"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// libsiw replays the vectors of libsiw.
var libsiw = &replay.Driver{
	Driver: siw.Driver{},
	Name:   "siw",
	NoIOVA: true,
	Known: []replay.Known{
		// The memory's own address, which the elements of its requests contain.
		{Command: replay.RegMR, Attr: abi.UVERBS_ATTR_CORE_IN, From: 16, To: 24},
		// The key that the provider chooses.
		{Command: replay.RegMR, Attr: abi.UVERBS_ATTR_UHW_IN},
		// The numbers of requests. The provider creates a queue with one more than requested.
		{Command: replay.CreateQP, Attr: abi.UVERBS_ATTR_CREATE_QP_CAP, To: 8},
	},
	Start: (&replay.Soft{
		Slot: func(w *vector.WR, want []byte) {
			// libsiw counts the elements that inline data came from.
			if replay.Inlined(w) {
				abi.View[abi.SiwSQE](want).NumSGE = 1
			}
		},
		Command: answerQuery,
	}).Start,
}

// TestVectors compares slots, doorbells, inputs of commands and completions with libsiw's.
func TestVectors(t *testing.T) { replay.Run(t, libsiw) }

// TestVectorsDetect checks that TestVectors detects a change of one bit. SRQs may have more receives than libsiw's.
func TestVectorsDetect(t *testing.T) { replay.Detects(t, libsiw, "srq got_wr") }

// answerQuery responds to a query that libsiw never sends. The response contains the number of
// READs that may be outstanding.
func answerQuery(c *replay.Call) {
	if c.Write == abi.IB_USER_VERBS_CMD_QUERY_QP {
		r := abi.UverbsQueryQPResp{MaxRdAtomic: 16, MaxDestRdAtomic: 16}
		c.Oracle = &vector.Call{Out: map[string]vector.Hex{"1": abi.Bytes(&r)}}
	}
}
