// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// vectors names one more file for TestVectors: see test/oracle/README.md.
var vectors = flag.String("vectors", "", "also check this file of vectors")

// TestVectors has the provider repeat the recorded calls to liberdma, request by request. It compares
// the requests, doorbell records and registers that the adapter would read, the inputs of commands, and
// the program's completions. Each session runs twice, with PostSend and with batches.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("filepath.Glob = %d files of vectors, %v, want at least 2, nil", len(files), err)
	}
	if *vectors != "" {
		files = append(files, replay.FromRoot(*vectors))
	}
	for _, name := range files {
		f, err := vector.ReadFile(name)
		if err != nil {
			t.Fatalf("vector.ReadFile: %v", err)
		}
		if f.Head.Driver != "erdma" {
			t.Fatalf("%s: driver of the vectors = %s, want erdma", name, f.Head.Driver)
		}
		for _, s := range f.Sessions {
			for _, how := range []string{"post", "batch"} {
				open := s.Records[0]
				t.Run(fmt.Sprintf("%s/%s%s/%s", filepath.Base(name), open.Name, open.Env["FAKEUV_SDB"], how), func(t *testing.T) {
					if long(s) {
						longtest.Need(t) // millions of completions
					}
					r := &replayer{T: t, file: filepath.Base(name), head: f.Head, batch: how == "batch"}
					r.session(s)
				})
			}
		}
	}
}

// long reports whether a session takes seconds.
func long(s *vector.Session) bool {
	for _, r := range s.Records {
		if r.Count > 1<<20 {
			return true
		}
	}
	return false
}

// maxReports is the maximum number of differences of a session that are reported.
const maxReports = 20

// differ reports a difference from the oracle.
func (r *replayer) differ(format string, args ...any) {
	r.Helper()
	if r.reports++; r.reports <= maxReports {
		r.Errorf("%s:%d %s %q: %s", r.file, r.rec.Line, r.rec.Type, r.rec.Name, fmt.Sprintf(format, args...))
	}
}

// TestVectorsCover checks that the vectors contain each of the cases that they were recorded for.
func TestVectorsCover(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	seen := map[string]int{}
	for _, name := range files {
		f, err := vector.ReadFile(name)
		if err != nil {
			t.Fatalf("vector.ReadFile: %v", err)
		}
		for _, s := range f.Sessions {
			for _, r := range s.Records {
				cover(seen, s.Records[0], r)
			}
		}
	}
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
	for what, n := range need {
		if seen[what] < n {
			t.Errorf("%s: %d records, want at least %d", what, seen[what], n)
		}
	}
}

// cover counts the cases in a record.
func cover(seen map[string]int, open, r *vector.Record) {
	count := func(what string, is bool) {
		if is {
			seen[what]++
		}
	}
	switch r.Type {
	case "open":
		seen["SDB="+open.Env["FAKEUV_SDB"]]++
	case "arm":
		seen["armed"]++
	case "event":
		seen["events"]++
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
			if r.RC == 0 {
				seen[fmt.Sprintf("%s, flags %d", w.Op, w.Flags&7)]++
			}
		}
		count("request that wraps", open.Name == "wrap" && r.At%32+uint32(len(r.WQE)/32) > 32)
	case "poll":
		for _, e := range r.CQEs {
			count(fmt.Sprintf("status %d of queue %d", e.Bytes[3], e.Bytes[2]), true)
			count(fmt.Sprintf("receive %d", e.Bytes[1]), e.Bytes[2] == 1)
		}
	}
}
