// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestGenerated requires that the generated parts of all documents are up to date.
func TestGenerated(t *testing.T) {
	want, err := Files("../..")
	if err != nil {
		t.Fatalf("Files: %v", err)
	}
	parts := 0
	for name, text := range want {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		parts += strings.Count(text, end)
		if string(got) != text {
			t.Errorf("%s is out of date: run make docs", name)
		}
	}
	if parts < 20 {
		t.Errorf("%d generated parts, want at least 20", parts)
	}
}

// TestBenchmarkTables requires that the tables of measurements are generated from files in docs/data.
func TestBenchmarkTables(t *testing.T) {
	for _, name := range []string{"docs/notes/performance.md", "docs/explanation/performance.md", "docs/adr/0044-borrowed-memory.md"} {
		inPart, tables := false, 0
		for i, line := range strings.Split(read(t, "../../"+name), "\n") {
			switch {
			case strings.HasPrefix(line, "<!-- table "):
				inPart = true
				tables++
			case line == end:
				inPart = false
			case !inPart && strings.HasPrefix(line, "|"):
				t.Errorf("%s:%d is a row of a table that is not generated: %q", name, i+1, line)
			}
		}
		if tables == 0 {
			t.Errorf("%s has no generated table", name)
		}
	}
}

var sample = fstest.MapFS{
	"docs/data/t.csv":   {Data: []byte("name,what\na.1,\"x, y\"\na.2,z\nb.1,w\n")},
	"docs/data/bar.csv": {Data: []byte("name\na|b\n")},
	"docs/data/f.json": {Data: []byte(`[{"Driver": "rxe", "Title": "T", "Affected": "A", "Symptom": "S", "Impact": "I", "Workaround": "W", "Evidence": "E"},
		{"Driver": "siw", "Title": "T"}]`)},
	"docs/data/g.json": {Data: []byte(`[{"Drivr": "rxe"}]`)},
	"x/x.go":           {Data: []byte("// SPDX\n\n// Package x is.\npackage x\n\n// T is.\ntype T int\n\n// F does.\nfunc F() {\n}\n\nfunc (t *T) M() {}\n")},
}

// TestFill fills and refuses markers.
func TestFill(t *testing.T) {
	const tail = "\n<!-- end -->\nafter\n"
	for _, tc := range []struct{ name, text, want, err string }{
		{name: "no marker", text: "one\n<!-- SPDX -->\ntwo\n", want: "one\n<!-- SPDX -->\ntwo\n"},
		{name: "table", text: "<!-- table t.csv -->\nold" + tail,
			want: "<!-- table t.csv -->\n| name | what |\n|---|---|\n| a.1 | x, y |\n| a.2 | z |\n| b.1 | w |" + tail},
		{name: "rows", text: "<!-- table t.csv b. -->" + tail,
			want: "<!-- table t.csv b. -->\n| name | what |\n|---|---|\n| b.1 | w |" + tail},
		{name: "columns", text: "<!-- columns t.csv what,name -->" + tail,
			want: "<!-- columns t.csv what,name -->\n| what | name |\n|---|---|\n| x, y | a.1 |\n| z | a.2 |\n| w | b.1 |" + tail},
		{name: "no column", text: "<!-- columns t.csv why -->" + tail, err: "no column"},
		{name: "faults", text: "<!-- faults f.json rxe -->" + tail,
			want: "<!-- faults f.json rxe -->\n\n### rxe: T\n\n- **Symptom**: S\n- **Affected**: A\n- **Impact**: I\n- **Work-around**: W\n- **Evidence**: E\n" + tail},
		{name: "file", text: "<!-- code x/x.go -->" + tail,
			want: "<!-- code x/x.go -->\n\n```go\n// Package x is.\npackage x\n\n// T is.\ntype T int\n\n// F does.\nfunc F() {\n}\n\nfunc (t *T) M() {}\n```\n" + tail},
		{name: "function", text: "<!-- code x/x.go F -->" + tail,
			want: "<!-- code x/x.go F -->\n\n```go\n// F does.\nfunc F() {\n}\n```\n" + tail},
		{name: "method", text: "<!-- code x/x.go T.M -->" + tail,
			want: "<!-- code x/x.go T.M -->\n\n```go\nfunc (t *T) M() {}\n```\n" + tail},
		{name: "type", text: "<!-- code x/x.go T -->" + tail,
			want: "<!-- code x/x.go T -->\n\n```go\n// T is.\ntype T int\n```\n" + tail},
		{name: "no function", text: "<!-- code x/x.go G -->" + tail, err: "no G"},
		{name: "no rows", text: "<!-- table t.csv c. -->" + tail, err: "no row"},
		{name: "no file", text: "<!-- table u.csv -->" + tail, err: "u.csv"},
		{name: "bar", text: "<!-- table bar.csv -->" + tail, err: "has a |"},
		{name: "no end", text: "<!-- table t.csv -->\n", err: "has no <!-- end -->"},
		{name: "no beginning", text: "<!-- end -->\n", err: "without a beginning"},
		{name: "incomplete fault", text: "<!-- faults f.json siw -->" + tail, err: `"T" has no Symptom`},
		{name: "no faults", text: "<!-- faults f.json mlx5 -->" + tail, err: "no fault"},
		{name: "unknown field", text: "<!-- faults g.json rxe -->" + tail, err: "Drivr"},
	} {
		got, err := fill(tc.text, sample)
		if tc.err == "" && (err != nil || got != tc.want) {
			t.Errorf("%s: fill = %q, %v, want %q", tc.name, got, err, tc.want)
		}
		if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: fill returned error %v, want %q", tc.name, err, tc.err)
		}
	}
}
