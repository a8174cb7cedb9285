// SPDX-License-Identifier: Apache-2.0

package litmus

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ownerWords has the drivers' words of completions with an owner bit, by the folder. A function that loads such a word without acquiring it could
// read other fields of the entry before the device has written them.
var ownerWords = map[string]*regexp.Regexp{
	"provider/mlx5":  regexp.MustCompile(`\b(?:cqeLast|cqeOpOwn)\b`),
	"provider/erdma": regexp.MustCompile(`\(\*uint(?:8|32)\)\((?:e|dst|src)\)`),
}

// ownerAccesses has the functions that access these words, with the reasons why they may. A function that acquires an entry has the name of
// its file in testdata.
var ownerAccesses = map[string]string{
	"provider/mlx5/cq.go lastWord":                    "acquires: mlx5-completion.litmus",
	"provider/mlx5/cq.go CQ.copyEntry":                "sift has acquired the entry",
	"provider/mlx5/compress.go CQ.skip":               "stores to entries of an array, which the device has written before the acquired title",
	"provider/mlx5/compress.go CQ.decompress":         "take or sift has acquired the title, which the device writes after the arrays",
	"provider/mlx5/cqerror.go CQ.impossible":          "a copy of an acquired entry",
	"provider/mlx5/recorder.go recordedCQ.completion": "take has acquired the entry",
	"provider/mlx5/srq.go SRQ.drop":                   "sift has acquired the entry",
	"provider/mlx5/srq.go isReceive":                  "sift or take has acquired the entry",
	"provider/erdma/cq.go header":                     "acquires: erdma-completion.litmus",
	"provider/erdma/sift.go cq.move":                  "sift has acquired the entry",
}

// TestOwnerBits looks for functions that access a word with an owner bit and are not in the table.
func TestOwnerBits(t *testing.T) {
	seen := map[string]bool{}
	for folder, words := range ownerWords {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", folder, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			functions, err := Functions(file)
			if err != nil {
				t.Fatalf("Functions: %v", err)
			}
			for fn, body := range functions {
				if !words.MatchString(body) {
					continue
				}
				name := folder + "/" + filepath.Base(file) + " " + fn
				if seen[name] = true; ownerAccesses[name] == "" {
					t.Errorf("%s accesses a word with an owner bit, want a load by lastWord or header, or a reason", name)
				}
				if strings.HasPrefix(ownerAccesses[name], "acquires") && !strings.Contains(body, "atomic.LoadUint32(") {
					t.Errorf("%s = %s, want an atomic load", name, body)
				}
			}
		}
	}
	for name := range ownerAccesses {
		if !seen[name] {
			t.Errorf("%s accesses no word with an owner bit, want a row of a function that does", name)
		}
	}
}
