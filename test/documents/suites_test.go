// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"encoding/csv"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// suiteCases names the lists of cases of the tests in suites.csv. The names of the other cases are in modules of others.
var suiteCases = map[string]struct{ file, list string }{
	"TestVMHTTP":     {"stream/http_test.go", "httpCases"},
	"TestVMInterop":  {"test/nettest/grpc/interop_test.go", "cases"},
	"TestVMRedis":    {"test/nettest/database/redis_test.go", "redisCases"},
	"TestVMPostgres": {"test/nettest/database/postgres_test.go", "postgresCases"},
}

// TestSuites compares the counts of suites.csv with the lists of cases in the tests, and with each other.
func TestSuites(t *testing.T) {
	f, err := os.Open(filepath.Join("../..", "docs/data/suites.csv"))
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatalf("ReadAll() = %v", err)
	}
	const test, cases, passed, failed, left = 1, 2, 3, 6, 8 // columns. Each driver has one of passed
	listed := 0
	for _, row := range rows[1:] {
		first, _, _ := strings.Cut(row[cases], " ")
		n, err := strconv.Atoi(first)
		if err != nil {
			t.Errorf("%s: the cases are %q, want a number first", row[test], row[cases])
			continue
		}
		if l, ok := suiteCases[row[test]]; ok {
			listed++
			if want := elements(t, l.file, l.list); n != want {
				t.Errorf("%s: cases = %d, and %s of %s has %d", row[test], n, l.list, l.file, want)
			}
		}
		if tests := strings.Split(row[test], ", Test"); len(tests) > 1 && n != len(tests) {
			t.Errorf("%s: cases = %d, want %d", row[test], n, len(tests))
		}
		switch {
		case strings.Contains(row[cases], "with and without TLS"):
			n *= 2
		case strings.Contains(row[cases], "in each of 3 runs"):
			n *= 3
		}
		for _, c := range row[passed:failed] {
			if c != strconv.Itoa(n) {
				t.Errorf("%s: passed = %v, want %d on each driver", row[test], row[passed:failed], n)
			}
		}
		for _, c := range row[failed:left] {
			if c != "0" {
				t.Errorf("%s: failed and skipped = %v, want 0", row[test], row[failed:left])
			}
		}
	}
	if listed != len(suiteCases) {
		t.Errorf("rows with a list of cases = %d, want %d", listed, len(suiteCases))
	}
}

// elements returns the number of elements of the composite literal of a variable.
func elements(t *testing.T, file, name string) int {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, 0)
	if err != nil {
		t.Fatalf("ParseFile() = %v", err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || v.Names[0].Name != name || len(v.Values) != 1 {
				continue
			}
			if l, ok := v.Values[0].(*ast.CompositeLit); ok {
				return len(l.Elts)
			}
		}
	}
	t.Fatalf("%s has no list %s", file, name)
	return 0
}
