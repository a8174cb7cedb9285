// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
)

// row is one row of a table, with its cells by the name of their column.
type row struct {
	line  int // line in the document, counted from 1
	cells map[string]string
}

// document contains the tables of a Markdown text, by the name of their first column. Tables
// with equal first columns are combined.
type document map[string][]row

// parse parses the tables. A row whose number of cells differs from its header is a problem,
// because it would be parsed wrongly.
func parse(text string) (document, []string) {
	doc := document{}
	var problems []string
	var header []string
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			header = nil
			continue
		}
		cells := cut(line)
		switch {
		case header == nil:
			header = cells
		case strings.Trim(line, "|-: ") == "":
		case len(cells) != len(header):
			problems = append(problems, fmt.Sprintf("line %d: %d cells, its table has %d columns", i+1, len(cells), len(header)))
		default:
			r := row{line: i + 1, cells: map[string]string{}}
			for j, name := range header {
				r.cells[name] = cells[j]
				if cells[j] == "" {
					problems = append(problems, fmt.Sprintf("line %d: column %q is empty", i+1, name))
				}
			}
			doc[header[0]] = append(doc[header[0]], r)
		}
	}
	return doc, problems
}

// cut splits a line into cells.
func cut(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
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
