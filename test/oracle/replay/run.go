// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"flag"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/provider"
	"purerdma/test/oracle/vector"
)

// vectors names one more file for Run: see README.md of test/oracle.
var vectors = flag.String("vectors", "", "also check this file of vectors")

// Driver replays the vectors of a driver.
type Driver struct {
	provider.Driver
	Name string // of the driver in vectors. Its library is called "lib" + Name
	// Known lists the intended differences from the library's commands.
	Known []Known
	// Equal maps the library's commands to other commands of the provider. Both have the same inputs, up to zeros at the end.
	Equal map[Command]Command
	// NoIOVA is set if the driver cannot register memory at another address than its own.
	NoIOVA bool
	// InvalidIsENOMEM is set if the library returns ENOMEM for a request that is not valid, and not only for a full queue.
	// Records that fill a queue are then named "fill" and "full".
	InvalidIsENOMEM bool
	// Start is called before a session's device is opened. It returns the function that replays Session.Rec, for the
	// types of records that Session does not replay itself.
	Start func(*Session) func()
}

// Run has the provider repeat the recorded calls to the driver's library, request by request. The vectors are the files in
// testdata, and the file of the flag -vectors. Each session runs twice, with PostSend and with batches. A session of
// millions of requests runs once.
func Run(t *testing.T, d *Driver) {
	names := files(t)
	if *vectors != "" {
		names = append(names, FromRoot(*vectors))
	}
	for _, name := range names {
		f := read(t, d, name)
		for _, records := range f.Sessions {
			for _, how := range []string{"post", "batch"} {
				if how == "batch" && long(records) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", filepath.Base(name), title(records), how), func(t *testing.T) {
					if long(records) {
						longtest.Need(t) // millions of completions
					}
					s := &Session{TB: t, Head: f.Head, driver: d, file: filepath.Base(name), batch: how == "batch"}
					s.run(records)
				})
			}
		}
	}
}

// Covers checks that the files in testdata contain each of the cases that they were recorded for. A new recording might
// miss some. need has the minimum number of each case. count calls its last argument for each case of a record, or with
// false for a case that the record is not.
func Covers(t *testing.T, d *Driver, need map[string]int, count func(open, rec *vector.Record, is func(what string, is bool))) {
	seen := map[string]int{}
	is := func(what string, is bool) {
		if is {
			seen[what]++
		}
	}
	for _, name := range files(t) {
		for _, s := range read(t, d, name).Sessions {
			for _, rec := range s.Records {
				count(s.Records[0], rec, is)
			}
		}
	}
	for what, n := range need {
		if seen[what] < n {
			t.Errorf("%s: %d records, want at least %d", what, seen[what], n)
		}
	}
}

// files returns the names of the vectors in testdata, which are of two versions of the library.
func files(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(names) < 2 {
		t.Fatalf("filepath.Glob = %d files of vectors, %v, want at least 2, nil", len(names), err)
	}
	return names
}

func read(t *testing.T, d *Driver, name string) *vector.File {
	t.Helper()
	f, err := vector.ReadFile(name)
	if err != nil {
		t.Fatalf("vector.ReadFile: %v", err)
	}
	if f.Head.Driver != d.Name {
		t.Fatalf("driver of %s = %s, want %s", name, f.Head.Driver, d.Name)
	}
	return f
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
