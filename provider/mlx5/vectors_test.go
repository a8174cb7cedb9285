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

// vectors names one more file for TestVectors: see test/oracle/README.md.
var vectors = flag.String("vectors", "", "also check this file of vectors")

// TestVectors has the provider repeat the recorded calls to libmlx5, request by request. It
// compares the WQEs, doorbell records and registers that the device would read, the inputs of
// commands, and the program's completions. Each session runs twice, with PostSend and with
// batches.
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
		if f.Head.Driver != "mlx5" {
			t.Fatalf("%s: driver of the vectors = %s, want mlx5", name, f.Head.Driver)
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

// long reports whether a session takes seconds.
func long(s *vector.Session) bool {
	for _, r := range s.Records {
		if r.Count > 1<<20 {
			return true
		}
	}
	return false
}

// title returns a name for a session, made of its device and its environment.
func title(s *vector.Session) string {
	open := s.Records[0]
	parts := []string{open.Name}
	for k, v := range open.Env {
		parts = append(parts, k+"="+v)
	}
	sort.Strings(parts[1:])
	return strings.Join(parts, ",")
}

// maxReports is the maximum number of differences of a session that are reported in full.
const maxReports = 20

// differ reports a difference from the oracle.
func (r *replayer) differ(rec *vector.Record, format string, args ...any) {
	r.Helper()
	if r.reports++; r.reports <= maxReports {
		r.Errorf("%s:%d %s %q: %s", r.file, rec.Line, rec.Type, rec.Name, fmt.Sprintf(format, args...))
	} else if r.reports == maxReports+1 {
		r.Errorf("more differences follow")
	}
}
