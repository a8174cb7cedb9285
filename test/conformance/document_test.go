// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
)

// row is one row of a table: its cells by the name of their column.
type row struct {
	line  int // in the document, from 1 up
	cells map[string]string
}

// document is the tables of a Markdown text, by the name of their first column.
// Tables with the same first column are one.
type document map[string][]row

// parse reads the tables. What is malformed is a problem: a row that has not as
// many cells as its header would be read wrongly.
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

// names returns what a cell has in backquotes.
func names(cell string) []string {
	var out []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			out = append(out, part)
		}
	}
	return out
}
