// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	noProse      = regexp.MustCompile("(?s)```.*?```|`[^`]*`|<!-- columns .*?<!-- end -->|<!--.*?-->|\\]\\([^)]*\\)|\n    [^\n]*")
	abbreviation = regexp.MustCompile(`\b([a-z]?[A-Z]+[a-z]*[A-Z]+)s?\b`)
	errno        = regexp.MustCompile(`^E[A-Z]{4,}$`)
	glossaryTerm = regexp.MustCompile(`(?m)^\| ([^|]+) \|`)
)

// general lists the names in capitals that are no terms of RDMA: of networks, of operating systems, of
// files, and in the output of programs.
var general = strings.Fields(`
	API CI CRI GOMAXPROCS GiB HTTP IOV JSON KVM KiB MB MiB NULL NVIDIA QEMU SR TCP TLS UDP VM gRPC
	ARCHITECTURE CHANGELOG CONTRIBUTING LICENSE SECURITY
	ACCEPT CONNECT DELETE FAIL GET LISTEN PASS PUT SKIP UNKNOWN`)

// TestGlossary requires that the glossary explains the abbreviations in README.md, the tutorials, the
// guides and the explanations.
func TestGlossary(t *testing.T) {
	terms := map[string]bool{}
	for _, m := range glossaryTerm.FindAllStringSubmatch(read(t, "../../docs/reference/glossary.md"), -1) {
		for term := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return strings.ContainsRune(" ,()", r) }) {
			terms[term] = true
		}
	}
	if len(terms) < 50 || !terms["QP"] {
		t.Fatalf("glossary.md has %d terms, want at least 50, and QP", len(terms))
	}
	files := []string{"../../README.md"}
	for _, dir := range []string{"tutorial", "howto", "explanation"} {
		found, err := filepath.Glob("../../docs/" + dir + "/*.md")
		if err != nil || len(found) < 4 {
			t.Fatalf("Glob = %d documents in docs/%s, %v, want at least 4", len(found), dir, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		for _, name := range abbreviations(read(t, file)) {
			if !terms[name] {
				t.Errorf("%s uses %s, which glossary.md does not explain", file, name)
			}
		}
	}
}

// abbreviations returns the abbreviations in the prose of a document, without the general ones, error
// numbers and names of tests.
func abbreviations(text string) (out []string) {
	for _, m := range abbreviation.FindAllStringSubmatch(noProse.ReplaceAllString(text, " "), -1) {
		name := m[1]
		if !slices.Contains(general, name) && !errno.MatchString(name) && !isTest.MatchString(name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func TestAbbreviations(t *testing.T) {
	const text = "A QP, two CQs over TCP, RoCE and iWARP.\n`XRC` [UD](UC) EINVAL TestVM\n\n    AH\n\n```go\nMW\n```\n" +
		"<!-- SRQ --> KiB\n<!-- columns a.csv b -->\n| MR |\n<!-- end -->"
	if got, want := strings.Join(abbreviations(text), " "), "QP CQ RoCE iWARP UD"; got != want {
		t.Errorf("abbreviations(%q) = %q, want %q", text, got, want)
	}
}
