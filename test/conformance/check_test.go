// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Columns of the tables. The first column identifies a table.
const (
	colPage      = "page"
	colSection   = "section"
	colSentences = "sentences"
	colSentence  = "sentence"
	colOlder     = "older sentence"
	colNewer     = "newer sentence"
	colFunction  = "function"
	colFeature   = "feature"
	colEvent     = "event"
	colDriver    = "driver"
	colStatus    = "status"
	colWhere     = "where"
	colTest      = "shown by"
	colRemark    = "remark"
)

// none is an empty cell.
const none = "-"

// statuses contains the statuses of a sentence or a function. The value is true if the remark
// needs a reason.
var statuses = map[string]bool{"copied": false, "translated": true, "encoded": true, "left out": true}

// eventStatuses contains the statuses of an event on a driver.
var eventStatuses = map[string]bool{"provoked": false, "injected": true}

// outOfScope lists the parts that may be left out.
var outOfScope = []string{"rsockets", "ibacm"}

// checker collects the problems of tables.
type checker struct {
	tables   tables
	src      source
	open     []string // areas with open rows
	used     map[string]bool
	problems []string
}

// check compares the tables in data with the code, the functions and the events. It returns the
// problems, or nil.
func check(data fs.FS, src source, functions, events, drivers, open []string) []string {
	all, problems := read(data, "conformance-*.csv")
	c := &checker{tables: all, src: src, open: open, used: map[string]bool{}, problems: problems}
	sentences := c.sentences()
	c.complete(sentences)
	c.olderPage(sentences)
	c.functions(functions)
	c.features()
	c.events(events, drivers)
	for _, area := range open {
		if !c.used[area] {
			c.bad(row{}, "no row is open for %q any more: take it from the list", area)
		}
	}
	return c.problems
}

func (c *checker) bad(r row, format string, args ...any) {
	where := r.where
	if where != "" {
		where += ": "
	}
	c.problems = append(c.problems, where+fmt.Sprintf(format, args...))
}

// sentences checks the rows of the pages, and returns their names.
func (c *checker) sentences() map[string]bool {
	seen := map[string]bool{}
	for _, r := range c.tables[colSentence] {
		name := r.cells[colSentence]
		if seen[name] {
			c.bad(r, "%s is there twice", name)
		}
		seen[name] = true
		c.claim(r, statuses)
	}
	return seen
}

// complete checks that each page has the number of sentences in the table of pages, and no
// others.
func (c *checker) complete(sentences map[string]bool) {
	older := map[string]bool{}
	for _, r := range c.tables[colOlder] {
		if name := r.cells[colOlder]; name != none {
			if older[name] {
				c.bad(r, "%s is there twice", name)
			}
			older[name] = true
		}
	}
	expected := map[string]bool{}
	for _, r := range c.tables[colPage] {
		n, err := strconv.Atoi(r.cells[colSentences])
		if err != nil || n < 1 {
			c.bad(r, "%q is no number of sentences", r.cells[colSentences])
		}
		for i := range n {
			name := fmt.Sprintf("%s %s %d", r.cells[colPage], r.cells[colSection], i+1)
			expected[name] = true
			if !sentences[name] && !older[name] {
				c.bad(r, "%s has no row", name)
			}
		}
	}
	for _, set := range []map[string]bool{sentences, older} {
		for name := range set {
			if !expected[name] {
				c.bad(row{}, "%s is not in the table of pages", name)
			}
		}
	}
}

// olderPage checks that each sentence of the older page refers to a sentence of the newer page.
func (c *checker) olderPage(sentences map[string]bool) {
	for _, r := range c.tables[colOlder] {
		if name := r.cells[colNewer]; name != none && !sentences[name] {
			c.bad(r, "%s, which it points to, is no sentence", name)
		} else if name == none && r.cells[colOlder] == none {
			c.bad(r, "it names no sentence")
		}
	}
}

// functions checks that each function has a row, and each row a function.
func (c *checker) functions(want []string) {
	seen := map[string]bool{}
	for _, r := range c.tables[colFunction] {
		fns := names(r.cells[colFunction])
		if len(fns) == 0 {
			c.bad(r, "it names no function")
		}
		for _, fn := range fns {
			if seen[fn] {
				c.bad(r, "%s is there twice", fn)
			}
			seen[fn] = true
			if !slices.Contains(want, fn) {
				c.bad(r, "%s is not in the list of functions", fn)
			}
		}
		c.claim(r, statuses)
	}
	for _, fn := range want {
		if !seen[fn] {
			c.bad(row{}, "%s has no row", fn)
		}
	}
}

// features checks the table of features that no driver here supports. All of them must be
// encoded.
func (c *checker) features() {
	if len(c.tables[colFeature]) == 0 {
		c.bad(row{}, "there is no table of what no driver runs")
	}
	for _, r := range c.tables[colFeature] {
		c.claim(r, map[string]bool{"encoded": true})
	}
}

// events checks that each event has a row for each driver.
func (c *checker) events(want, drivers []string) {
	seen := map[string]bool{}
	for _, r := range c.tables[colEvent] {
		name := r.cells[colEvent] + " " + r.cells[colDriver]
		seen[name] = true
		if !slices.Contains(want, r.cells[colEvent]) || !slices.Contains(drivers, r.cells[colDriver]) {
			c.bad(r, "%s is no event on a driver", name)
		}
		c.claim(r, eventStatuses)
	}
	for _, event := range want {
		for _, driver := range drivers {
			if name := event + " " + driver; !seen[name] {
				c.bad(row{}, "%s has no row", name)
			}
		}
	}
}

// claim checks a row. Its status must be allowed, its names must exist, and it must have a
// reason if required.
func (c *checker) claim(r row, allowed map[string]bool) {
	status, area, isOpen := strings.Cut(strings.TrimSuffix(r.cells[colStatus], ")"), " (open: ")
	needsReason, ok := allowed[status]
	if !ok {
		c.bad(r, "%q is no status", r.cells[colStatus])
	}
	if needsReason && r.cells[colRemark] == none {
		c.bad(r, "%s without a reason", status)
	}
	if isOpen {
		c.used[area] = true
		if !slices.Contains(c.open, area) {
			c.bad(r, "it is open, and %q is not in the list of what may be", area)
		}
		return
	}
	if status == "left out" {
		if !slices.ContainsFunc(outOfScope, func(s string) bool { return strings.Contains(r.cells[colRemark], s) }) {
			c.bad(r, "only %s may be left out", strings.Join(outOfScope, " and "))
		}
		return
	}
	if where, ok := r.cells[colWhere]; ok { // events have no such column
		c.exist(r, where, "symbol", c.src.hasSymbol)
	}
	c.exist(r, r.cells[colTest], "test", c.src.hasTest)
}

func (c *checker) exist(r row, cell, kind string, has func(string) bool) {
	list := names(cell)
	if len(list) == 0 {
		c.bad(r, "it names no %s", kind)
	}
	for _, name := range list {
		if !has(name) {
			c.bad(r, "%s %s does not exist", kind, name)
		}
	}
}
