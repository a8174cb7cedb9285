// SPDX-License-Identifier: Apache-2.0

// Package addrinfo reads the golden files that test/addrinfo/gen records of librdmacm.
package addrinfo

import (
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Golden runs a test with the lines of each golden file of a name in the testdata of the
// package under test: the question, and librdmacm's answer.
func Golden(t *testing.T, name string, test func(*testing.T, iter.Seq2[string, string])) {
	t.Helper()
	files, err := filepath.Glob("testdata/" + name + "-librdmacm-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			test(t, func(yield func(string, string) bool) {
				for line := range strings.Lines(string(b)) {
					if question, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " => "); ok && !yield(question, answer) {
						return
					}
				}
			})
		})
	}
}
