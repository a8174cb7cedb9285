// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// colCase is the first column of docs/data/pyverbs.csv.
const colCase = "case"

// caseStatuses contains the statuses of a case. The value is true if the remark needs a reason.
var caseStatuses = map[string]bool{"same": false, "other": true, "refused": true, "none": true}

// checkCases compares the rows of cases with the list and the code, and returns the problems.
func checkCases(data fs.FS, src source, want []string) []string {
	all, problems := read(data, "pyverbs*.csv")
	c := &checker{tables: all, src: src, used: map[string]bool{}, problems: problems}
	seen := map[string]bool{}
	for _, r := range all[colCase] {
		name := r.cells[colCase]
		if seen[name] {
			c.bad(r, "%s is there twice", name)
		}
		seen[name] = true
		if !slices.Contains(want, name) {
			c.bad(r, "%s is not in the list of cases", name)
		}
		status := r.cells[colStatus]
		needsReason, ok := caseStatuses[status]
		if !ok {
			c.bad(r, "%q is no status", status)
		}
		if needsReason && r.cells[colRemark] == none {
			c.bad(r, "%s without a reason", status)
		}
		if status != "none" {
			c.exist(r, r.cells[colTest], "test", src.hasTest)
		} else if r.cells[colTest] != none {
			c.bad(r, "it names a test, and says that there is none")
		}
	}
	for _, name := range want {
		if !seen[name] {
			c.bad(row{}, "%s has no row", name)
		}
	}
	return c.problems
}

// TestPyverbs compares docs/data/pyverbs.csv with the list of cases and the code.
func TestPyverbs(t *testing.T) {
	root := moduleRoot(t)
	data := os.DirFS(filepath.Join(root, "docs", "data"))
	cases := lines(t, "pyverbs-65.0.txt")
	if len(cases) < 150 {
		t.Fatalf("%d cases, want at least 150", len(cases))
	}
	for _, problem := range checkCases(data, readSource(t, root), cases) {
		t.Errorf("docs/data: %s", problem)
	}
}

const sampleCases = `
case,status,shown by,remark
mr.A.one,same,''cm.TestEcho'',-
mr.A.two,other,''cm.TestEcho/IPv4'',why
mr.A.three,refused,''cm.TestEcho'',why
mr.A.four,none,-,why
`

// TestBrokenCases breaks a sample in each way that the check must detect.
func TestBrokenCases(t *testing.T) {
	src := source{}
	if err := src.add("cm/id_test.go", []byte(sampleTests)); err != nil {
		t.Fatalf("src.add: %v", err)
	}
	want := []string{"mr.A.one", "mr.A.two", "mr.A.three", "mr.A.four"}
	for _, tc := range []struct{ name, old, new, want string }{
		{"whole", "", "", ""},
		{"case without a row", "mr.A.two", "mr.A.one", "mr.A.two has no row"},
		{"case twice", "mr.A.two", "mr.A.one", "mr.A.one is there twice"},
		{"unknown case", "A.two", "A.five", "mr.A.five is not in the list of cases"},
		{"test gone", "''cm.TestEcho'',-", "''cm.TestEhco'',-", "test cm.TestEhco does not exist"},
		{"part gone", "IPv4", "IPv6", "test cm.TestEcho/IPv6 does not exist"},
		{"no test", "''cm.TestEcho'',-", "-,-", "it names no test"},
		{"no reason", ",none,-,why", ",none,-,-", "none without a reason"},
		{"a test that is not wanted", ",none,-,", ",none,''cm.TestEcho'',", "it names a test, and says that there is none"},
		{"unknown status", "refused", "skipped", `"skipped" is no status`},
	} {
		problems := checkCases(csvFiles("pyverbs", strings.Replace(sampleCases, tc.old, tc.new, 1)), src, want)
		if tc.want == "" {
			if len(problems) > 0 {
				t.Errorf("checkCases of %s = %v, want none", tc.name, problems)
			}
		} else if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, tc.want) }) {
			t.Errorf("checkCases of %s = %v, want %q", tc.name, problems, tc.want)
		}
	}
}
