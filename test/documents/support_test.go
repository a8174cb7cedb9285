// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"purerdma/verbs"
)

var (
	makeKernels = regexp.MustCompile(`(?m)^KERNELS \?= (.*)$`)
	makeDrivers = regexp.MustCompile(`(?m)^MATRIX_ROWS = .*\$\(foreach d,([^,]*),`)
	makeModel   = regexp.MustCompile(`(?m)^ERDMA_ROWS +=.*\$\(call VM,\$\(k\),([^)]*)\)`)
	makeBnxt    = regexp.MustCompile(`(?m)^BNXT_ROWS +=.*\$\(filter-out ([^,]*),\$\(KERNELS\)\),-- \$\(call VM,\$\(k\),([^)]*)\)`)
)

// TestSupportMatrix compares the columns of docs/data/support-features.csv with the drivers and the
// kernels of make matrix, make test-erdma and make test-bnxt_re, and the tested kernels of support.md with the columns.
func TestSupportMatrix(t *testing.T) {
	makefile, doc := read(t, "../../Makefile"), read(t, "../../docs/reference/support.md")
	kernels, drivers, model := makeKernels.FindStringSubmatch(makefile), makeDrivers.FindStringSubmatch(makefile), makeModel.FindStringSubmatch(makefile)
	bnxt := makeBnxt.FindStringSubmatch(makefile)
	if kernels == nil || drivers == nil || model == nil || bnxt == nil {
		t.Fatalf("Makefile: KERNELS is %q, the drivers of MATRIX_ROWS are %q, the driver of ERDMA_ROWS is %q, BNXT_ROWS has %q", kernels, drivers, model, bnxt)
	}
	var want []string
	for driver := range strings.FieldsSeq(drivers[1] + " " + model[1] + " " + bnxt[2]) {
		for kernel := range strings.FieldsSeq(kernels[1]) {
			if driver != bnxt[2] || !slices.Contains(strings.Fields(bnxt[1]), kernel) {
				want = append(want, driver+" "+kernel)
			}
		}
	}
	columns := readCSV(t, "support-features.csv")[0][1:]
	// A series such as 7 has its release in the column, such as 7.3.
	if !slices.EqualFunc(columns, want, func(c, w string) bool { return c == w || strings.HasPrefix(c, w+".") }) {
		t.Errorf("support-features.csv has columns %q, want %q", columns, want)
	}
	tested := regexp.MustCompile(`(?m)^\| tested kernels \|.*$`).FindString(doc)
	for _, c := range columns {
		if _, kernel, _ := strings.Cut(c, " "); !strings.Contains(tested, kernel) {
			t.Errorf("support.md has the tested kernels %q, want %s", tested, kernel)
		}
	}
}

// TestSupportedDevices compares the table of devices in support.md with the drivers of package
// verbs.
func TestSupportedDevices(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../../docs/reference/support.md"), "\n## Devices\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for _, m := range regexp.MustCompile(`(?m)^\| [^|]+ \| (\w+) \|`).FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	for _, d := range verbs.DefaultHost().Drivers {
		want = append(want, fmt.Sprint(d.ID()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("support.md has devices of the drivers %q, want %q", got, want)
	}
}

// TestRowsShown requires that a document has each row of the CSV files.
func TestRowsShown(t *testing.T) {
	documents, err := Files("../..")
	if err != nil {
		t.Fatalf("Files: %v", err)
	}
	prefixes := map[string][]string{} // by file
	for _, text := range documents {
		for _, m := range regexp.MustCompile(`(?m)^<!-- (?:table (\S+)(?: (\S+))?|columns (\S+) \S+) -->$`).FindAllStringSubmatch(text, -1) {
			prefixes[m[1]+m[3]] = append(prefixes[m[1]+m[3]], m[2])
		}
	}
	files, err := filepath.Glob("../../docs/data/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %q, %v", files, err)
	}
	for _, file := range files {
		file = filepath.Base(file)
		for i, row := range readCSV(t, file)[1:] {
			if !slices.ContainsFunc(prefixes[file], func(p string) bool { return strings.HasPrefix(row[0], p) }) {
				t.Errorf("%s: no document has row %d, %q", file, i+1, row[0])
			}
		}
	}
}

func readCSV(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("../../docs/data", name))
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rows
}

// TestPrograms requires that support.md lists each program in cmd.
func TestPrograms(t *testing.T) {
	files, err := filepath.Glob("../../cmd/*/main.go")
	if err != nil || len(files) < 15 {
		t.Fatalf("Glob = %d programs, %v, want at least 15", len(files), err)
	}
	doc := read(t, "../../docs/reference/support.md")
	for _, file := range files {
		if name := filepath.Base(filepath.Dir(file)); !strings.Contains(doc, "`cmd/"+name+"`") {
			t.Errorf("support.md does not list cmd/%s", name)
		}
	}
}
