// SPDX-License-Identifier: Apache-2.0

// Package documents writes the parts of documents that are data. A document has a marker
// where such a part belongs:
//
//	<!-- table FILE [PREFIX] -->    a table of the rows of docs/data/FILE (CSV) that begin with PREFIX
//	<!-- columns FILE A,B -->       the columns A and B of all rows of docs/data/FILE (CSV)
//	<!-- faults FILE DRIVER -->     a section for each fault of the driver in docs/data/FILE (JSON)
//	<!-- hardware DIR -->          a table of the reports of rdmahw (JSON) in docs/data/DIR
//	<!-- code FILE [NAME] -->       the Go file, or its function or type of that name
//
// The part reaches to the next <!-- end -->. Command write (make docs) writes the parts
// again, and a test fails when one is out of date.
package documents

import (
	"encoding/csv"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// Dir is the directory of the documents, relative to the root of the module.
	Dir = "docs"
	// end is the marker after a generated part.
	end = "<!-- end -->"
)

// Files returns each document in the root of the module, in Dir and in examples, by its path, with
// its generated parts written anew.
func Files(root string) (map[string]string, error) {
	out := map[string]string{}
	module := os.DirFS(root)
	add := func(file string) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		out[file], err = fill(string(text), module)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return nil
	}
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range top {
		if err := add(file); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{Dir, "examples"} {
		err = filepath.WalkDir(filepath.Join(root, dir), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(file) != ".md" {
				return err
			}
			return add(file)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fill returns the text with its generated parts written anew from the files of the module.
func fill(text string, module fs.FS) (string, error) {
	var out strings.Builder
	inPart := ""
	for line := range strings.Lines(text) {
		marker := strings.TrimSpace(line)
		switch {
		case marker == end:
			if inPart == "" {
				return "", fmt.Errorf("%s without a beginning", end)
			}
			inPart = ""
		case inPart != "":
			continue
		}
		out.WriteString(line)
		part, err := generate(marker, module)
		if err != nil {
			return "", fmt.Errorf("%s: %w", marker, err)
		}
		if part != "" {
			inPart = marker
			out.WriteString(part)
		}
	}
	if inPart != "" {
		return "", fmt.Errorf("%s has no %s", inPart, end)
	}
	return out.String(), nil
}

// generate returns the part that belongs below a line, or nothing if the line is no marker.
func generate(line string, module fs.FS) (string, error) {
	line, ok := strings.CutPrefix(line, "<!-- ")
	line, closed := strings.CutSuffix(line, " -->")
	kind, args, _ := strings.Cut(line, " ")
	file, arg, _ := strings.Cut(args, " ")
	switch {
	case !ok || !closed:
		return "", nil
	case kind == "table":
		return table(module, Dir+"/data/"+file, arg, nil)
	case kind == "columns":
		return table(module, Dir+"/data/"+file, "", strings.Split(arg, ","))
	case kind == "faults":
		return faults(module, Dir+"/data/"+file, arg)
	case kind == "hardware":
		return hardware(module, Dir+"/data/"+file)
	case kind == "code":
		return code(module, file, arg)
	}
	return "", nil
}

// table returns the rows of a CSV file whose first cell begins with prefix as a Markdown
// table, with the named columns or with all.
func table(module fs.FS, file, prefix string, columns []string) (string, error) {
	f, err := module.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("%s is empty", file)
	}
	if columns == nil {
		columns = rows[0]
	}
	var out strings.Builder
	n := 0
	for i, row := range rows {
		if i > 0 && !strings.HasPrefix(row[0], prefix) {
			continue
		}
		n++
		for _, name := range columns {
			j := slices.Index(rows[0], name)
			if j < 0 {
				return "", fmt.Errorf("%s has no column %q", file, name)
			}
			if strings.ContainsAny(row[j], "|\n") {
				return "", fmt.Errorf("%s: a cell of row %q has a | or a line break", file, row[0])
			}
			out.WriteString("| " + row[j] + " ")
		}
		out.WriteString("|\n")
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
		}
	}
	if n < 2 {
		return "", fmt.Errorf("%s has no row that begins with %q", file, prefix)
	}
	return out.String(), nil
}
