// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw_test

import (
	"flag"
	"path/filepath"
	"testing"

	"purerdma/abi"
	"purerdma/provider/siw"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// vectors names one more file for TestVectors: see test/oracle/README.md.
var vectors = flag.String("vectors", "", "also check this file of vectors")

// TestVectors has the provider repeat the recorded calls to libsiw, and compares slots,
// doorbells and completions.
func TestVectors(t *testing.T) {
	d := &replay.Soft{
		Driver: siw.Driver{},
		Name:   "siw",
		Slot: func(w *vector.WR, want []byte) {
			// libsiw counts the elements that inline data came from.
			if replay.Inlined(w) {
				abi.View[abi.SiwSQE](want).NumSGE = 1
			}
		},
		Command: answerQuery,
	}
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("filepath.Glob = %d files of vectors, %v, want at least 2, nil", len(files), err)
	}
	if *vectors != "" {
		files = append(files, replay.FromRoot(*vectors))
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { d.Run(t, name) })
	}
}

// answerQuery responds to a query that libsiw never sends. The response contains the number of
// READs that may be outstanding.
func answerQuery(c *replay.Call) {
	if c.Write == abi.IB_USER_VERBS_CMD_QUERY_QP {
		r := abi.UverbsQueryQPResp{MaxRdAtomic: 16, MaxDestRdAtomic: 16}
		c.Oracle = &vector.Call{Out: map[string]vector.Hex{"1": abi.Bytes(&r)}}
	}
}
