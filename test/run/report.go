// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
)

// maxLines bounds the number of lines of a run without failures. Later rows may use the lines
// that earlier rows have not used.
const maxLines = 60

// rowLines is the number of a row's lines in addition to the lines of its packages.
const rowLines = 3

// A report counts the tests of all rows and prints a summary for the user.
type report struct {
	w       io.Writer
	tty     bool
	rows    []*row
	start   time.Time
	stop    chan struct{}
	mu      sync.Mutex
	lines   int // printed lines, except failures
	status  bool
	started int // number of started rows
	cur     rowReport

	passed, failed, skipped int
	failures                []string
	doneEstimate            time.Duration // estimate of the finished rows
}

// A rowReport is the part of a report for the running row.
type rowReport struct {
	row                     *row
	start                   time.Time
	packages, tests         int // expected numbers, 0 tests if unknown.
	ended, finished         int // finished packages and tests.
	passed, failed, skipped int
	budget                  int // lines left for packages.
	running                 map[string]*pkgReport
	now                     string // the last started test
	builds                  map[string]*strings.Builder
}

// A pkgReport is the part of a report for one package.
type pkgReport struct {
	passed, failed, skipped int
	output                  map[string]*strings.Builder // output of running top-level tests, with "" for the package's own.
	skips                   map[string]bool             // top-level tests with a part that skipped itself in the virtual machine
}

func newReport(w io.Writer, rows []*row) *report {
	r := &report{w: w, rows: rows, start: time.Now(), stop: make(chan struct{})}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		r.tty = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if r.tty {
		go r.tick()
	}
	return r
}

// tick updates the status line of a terminal.
func (r *report) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-t.C:
			r.mu.Lock()
			r.showStatus()
			r.mu.Unlock()
		}
	}
}

// showStatus writes the status line, which the next output replaces.
func (r *report) showStatus() {
	if !r.tty || r.cur.row == nil {
		return
	}
	c := &r.cur
	progress := fmt.Sprintf("%d of %d packages", c.ended, c.packages)
	if c.tests > 0 {
		progress = fmt.Sprintf("%d of %d tests", c.finished, c.tests)
	}
	failed := ""
	if n := r.failed + c.failed; n > 0 {
		failed = fmt.Sprintf(", %d failed", n)
	}
	fmt.Fprintf(r.w, "\r\x1b[K[%d/%d] %s: %s%s, about %s left  %.40s", r.started, len(r.rows), c.row.name, progress, failed, r.left(), c.now)
	r.status = true
}

// left estimates the remaining time. It scales the rows' estimates by the duration of the
// finished rows.
func (r *report) left() time.Duration {
	var rest time.Duration
	for _, row := range r.rows[r.started:] {
		rest += row.estimate
	}
	done := r.doneEstimate
	if c := &r.cur; c.row != nil {
		part := 0.0
		if c.tests > 0 {
			part = float64(c.finished) / float64(c.tests)
		} else if c.packages > 0 {
			part = float64(c.ended) / float64(c.packages)
		}
		part = min(part, 1)
		done += time.Duration(part * float64(c.row.estimate))
		rest += time.Duration((1 - part) * float64(c.row.estimate))
	}
	if done > 30*time.Second {
		rest = time.Duration(float64(rest) * float64(time.Since(r.start)) / float64(done))
	}
	if rest < time.Minute {
		return rest.Round(10 * time.Second)
	}
	return rest.Round(time.Minute)
}

// printf prints a line and counts it.
func (r *report) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(format, args...)
}

func (r *report) print(format string, args ...any) {
	r.write(fmt.Sprintf(format, args...) + "\n")
	r.lines++
}

// write writes text in place of the status line.
func (r *report) write(text string) {
	if r.status {
		io.WriteString(r.w, "\r\x1b[K")
		r.status = false
	}
	io.WriteString(r.w, text)
}

// output passes on rdmavm's own output.
func (r *report) output(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text != "" {
		r.write(text)
		r.lines++
	}
}

// beginRow starts the next row with its numbers of packages and tests.
func (r *report) beginRow(packages, tests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.rows[r.started]
	rest := len(r.rows) - r.started
	r.cur = rowReport{
		row: row, start: time.Now(), packages: packages, tests: tests,
		budget:  (maxLines-2-r.lines)/rest - rowLines,
		running: map[string]*pkgReport{}, builds: map[string]*strings.Builder{},
	}
	what := count(packages, "package")
	switch {
	case row.check:
		what = count(1, "check")
	case tests > 0:
		what = count(tests, "test") + " in " + what
	}
	r.started++
	r.print("[%d/%d] %s: %s, about %s left", r.started, len(r.rows), row.name, what, r.left())
}

// endRow ends the row and prints its sum.
func (r *report) endRow(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.cur
	r.passed, r.failed, r.skipped = r.passed+c.passed, r.failed+c.failed, r.skipped+c.skipped
	r.doneEstimate += c.row.estimate
	r.print("  %s in %v%s", sum(c.passed, c.failed, c.skipped), time.Since(c.start).Round(time.Second), note)
	r.cur = rowReport{}
}

// count formats a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// sum formats a sum of tests.
func sum(passed, failed, skipped int) string {
	s := fmt.Sprintf("%d passed, %d failed", passed, failed)
	if skipped > 0 {
		s += fmt.Sprintf(", %d skipped", skipped)
	}
	return s
}

// fail counts a failure that does not belong to a test.
func (r *report) fail(what, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cur.failed++
	r.failures = append(r.failures, r.cur.row.name+": "+what)
	r.write("FAIL " + what + "\n" + why)
}

// close prints the sum of all rows. It reports whether nothing failed.
func (r *report) close() bool {
	close(r.stop)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.cur // for an unfinished row
	passed, failed, skipped := r.passed+c.passed, r.failed+c.failed, r.skipped+c.skipped
	if len(r.failures) > 0 {
		r.print("failed:")
		for _, f := range r.failures {
			r.print("  %s", f)
		}
	}
	r.print("%d of %s in %v", r.started, count(len(r.rows), "row"), time.Since(r.start).Round(time.Second))
	r.print("%s", sum(passed, failed, skipped))
	return failed == 0
}

// event processes one event of a test program.
func (r *report) event(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.cur
	if e.Action == "build-output" {
		pkg, _, _ := strings.Cut(e.ImportPath, " ")
		buffer(c.builds, pkg).WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := c.running[e.Package]
	if p == nil {
		p = &pkgReport{output: map[string]*strings.Builder{}, skips: map[string]bool{}}
		c.running[e.Package] = p
	}
	top, _, part := strings.Cut(e.Test, "/")
	switch e.Action {
	case "output":
		if c.row.verbose {
			r.write(e.Output)
		}
		buffer(p.output, top).WriteString(e.Output)
		return
	case "run":
		c.now = e.Test
		buffer(p.output, top)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	switch {
	case e.Test == "":
		r.endPackage(e, p)
	case part:
		if e.Action == "skip" && c.row.inVM() && !long(p, top) {
			p.skips[top] = true
		}
	default:
		r.endTest(e, p)
	}
}

// buffer returns the buffer with a name.
func buffer(m map[string]*strings.Builder, name string) *strings.Builder {
	b := m[name]
	if b == nil {
		b = new(strings.Builder)
		m[name] = b
	}
	return b
}

// long reports whether a test has printed the text of a long test.
func long(p *pkgReport, test string) bool {
	return strings.Contains(buffer(p.output, test).String(), longtest.Notice)
}

// endTest processes the end of a top-level test.
func (r *report) endTest(e event, p *pkgReport) {
	c := &r.cur
	c.finished++
	out := buffer(p.output, e.Test).String()
	delete(p.output, e.Test)
	switch {
	case e.Action == "skip" && strings.Contains(out, longtest.Notice):
		p.skipped++
	case e.Action == "skip" && c.row.inVM(), p.skips[e.Test] && e.Action != "fail":
		out += e.Test + " skipped itself, but nothing that a test may need is missing here\n"
		e.Action = "fail"
	case e.Action == "skip" && strings.Contains(out, vmtest.Notice):
		// It runs in the virtual machine.
	case e.Action == "skip":
		p.skipped++
	case e.Action == "pass":
		p.passed++
	}
	if e.Action == "fail" {
		p.failed++
		r.failures = append(r.failures, fmt.Sprintf("%s: %s.%s", c.row.name, short(e.Package), e.Test))
		if !c.row.verbose {
			r.write(out)
		}
	}
}

// short returns the path of a package in the module.
func short(pkg string) string { return strings.TrimPrefix(pkg, "purerdma/") }

// endPackage processes the end of a package. It prints the package's line if there is room. A
// package that took less than a second has no line.
func (r *report) endPackage(e event, p *pkgReport) {
	c := &r.cur
	delete(c.running, e.Package)
	if p.passed+p.failed+p.skipped == 0 && e.Action != "fail" && len(p.output) == 0 {
		return // no tests
	}
	c.ended++
	if e.Action == "fail" && p.failed == 0 {
		// It panicked, left something open, or failed to build.
		p.failed++
		r.failures = append(r.failures, fmt.Sprintf("%s: %s", c.row.name, short(e.Package)))
		failed, _, _ := strings.Cut(e.FailedBuild, " ")
		r.write(buffer(c.builds, failed).String())
		delete(c.builds, failed)
	}
	if e.Action == "fail" && !c.row.verbose {
		for _, test := range sortedKeys(p.output) { // unfinished tests, and the package's own output
			r.write(buffer(p.output, test).String())
		}
	}
	c.passed, c.failed, c.skipped = c.passed+p.passed, c.failed+p.failed, c.skipped+p.skipped
	line := fmt.Sprintf("  %-5s %-30s %s, %.1fs", map[bool]string{true: "FAIL", false: "ok"}[p.failed > 0], short(e.Package), sum(p.passed, p.failed, p.skipped), e.Elapsed)
	switch {
	case p.failed > 0:
		r.write(line + "\n")
	case c.row.verbose, e.Elapsed >= 1 && c.budget > 0:
		c.budget--
		r.print("%s", line)
	}
}

// sortedKeys returns the names of tests, with the package's own output last.
func sortedKeys(m map[string]*strings.Builder) []string {
	var names []string
	for name := range m {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return append(names, "")
}
