// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// vectors is a further file for TestVectors: see test/oracle/README.md.
var vectors = flag.String("vectors", "", "check this file of vectors, too")

// TestVectors has the provider do what libmlx5 did, request by request, and compares
// what the device would see: WQEs, doorbell records, registers, what the kernel is
// told; and what the program gets of completions. Each session runs twice: once with
// PostSend, once with batches.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files of vectors: %v", len(files), err)
	}
	if *vectors != "" {
		files = append(files, replay.FromRoot(*vectors))
	}
	for _, name := range files {
		f, err := vector.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Head.Driver != "mlx5" {
			t.Fatalf("%s: vectors of %s", name, f.Head.Driver)
		}
		for _, s := range f.Sessions {
			for _, batch := range []bool{false, true} {
				how := "post"
				if batch {
					how = "batch"
				}
				if batch && long(s) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", filepath.Base(name), title(s), how), func(t *testing.T) {
					if long(s) {
						longtest.Need(t) // millions of completions
					}
					r := &replayer{T: t, file: filepath.Base(name), head: f.Head, batch: batch}
					r.session(s)
				})
			}
		}
	}
}

// long says whether a session takes seconds.
func long(s *vector.Session) bool {
	for _, r := range s.Records {
		if r.Count > 1<<20 {
			return true
		}
	}
	return false
}

// title names a session by the name of its device and its environment.
func title(s *vector.Session) string {
	open := s.Records[0]
	parts := []string{open.Name}
	for k, v := range open.Env {
		parts = append(parts, k+"="+v)
	}
	sort.Strings(parts[1:])
	return strings.Join(parts, ",")
}

// maxReports is how many differences of a session are told in full.
const maxReports = 20

// differ reports a difference from the oracle.
func (r *replayer) differ(rec *vector.Record, format string, args ...any) {
	r.Helper()
	if r.reports++; r.reports <= maxReports {
		r.Errorf("%s:%d %s %q: %s", r.file, rec.Line, rec.Type, rec.Name, fmt.Sprintf(format, args...))
	} else if r.reports == maxReports+1 {
		r.Errorf("and so on")
	}
}
