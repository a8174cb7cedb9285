// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// row is one row of a table, with its cells by the name of their column.
type row struct {
	where string // file and line
	cells map[string]string
}

// tables contains the rows of CSV files, by the name of their first column.
type tables map[string][]row

// read reads the files that match a pattern. An empty cell is a problem.
func read(data fs.FS, pattern string) (tables, []string) {
	files, err := fs.Glob(data, pattern)
	if err != nil || len(files) == 0 {
		return nil, []string{fmt.Sprintf("%s: no files, %v", pattern, err)}
	}
	all := tables{}
	var problems []string
	for _, file := range files {
		if err := all.read(data, file, &problems); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", file, err))
		}
	}
	return all, problems
}

func (t tables) read(data fs.FS, file string, problems *[]string) error {
	f, err := data.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r := csv.NewReader(f)
	header, err := r.Read()
	if err != nil {
		return err
	}
	for {
		cells, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := r.FieldPos(0)
		next := row{where: fmt.Sprintf("%s:%d", file, line), cells: map[string]string{}}
		for i, name := range header {
			next.cells[name] = cells[i]
		}
		if i := slices.Index(cells, ""); i >= 0 {
			*problems = append(*problems, fmt.Sprintf("%s: column %q is empty", next.where, header[i]))
		}
		t[header[0]] = append(t[header[0]], next)
	}
}

// names returns the names in a cell, which are in backquotes.
func names(cell string) []string {
	var out []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			out = append(out, part)
		}
	}
	return out
}
