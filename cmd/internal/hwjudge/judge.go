// SPDX-License-Identifier: Apache-2.0

// Package hwjudge judges a report of rdmahw from another host. It compares the results and the recordings of the report
// with the beliefs about a ConnectX that the driver and the model share. It also writes the recordings as vectors for the
// driver's tests.
//
// A report is from an unknown sender. Nothing in it is used as a path or printed before it is checked.
package hwjudge

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"purerdma/internal/hwreport"
)

// Judgment is the judgment of a report.
type Judgment struct {
	report     *hwreport.Report
	recordings []*recording
	refused    map[string]error // recordings that are not valid, by the name of the file
	answers    []string         // lines about responses of the kernel
	beliefs    []opinion
}

// Judge judges a report and the files of its archive (hwreport.ReadArchive).
func Judge(r *hwreport.Report, files map[string][]byte) *Judgment {
	j := &Judgment{report: r, refused: map[string]error{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == answersFile {
			j.answers = append(j.answers, answers(name, files[name])...)
		}
		if path.Ext(name) != ".jsonl" {
			continue
		}
		rec, err := readRecording(name, files[name])
		if err != nil {
			j.refused[name] = err
			continue
		}
		j.recordings = append(j.recordings, rec)
	}
	j.beliefs = opinions(r, j.recordings)
	return j
}

// Failed reports whether a check of the report failed, a recording was refused, or a belief is contradicted.
func (j *Judgment) Failed() bool {
	return j.report.Count(hwreport.Fail) > 0 || len(j.refused) > 0 ||
		slices.ContainsFunc(j.beliefs, func(o opinion) bool { return o.outcome == contradicted })
}

// String returns the judgment as text.
func (j *Judgment) String() string {
	var b strings.Builder
	m := &j.report.Machine
	fmt.Fprintf(&b, "%s %s, driver %s, firmware %s, board %s, Linux %s, %s; %s\n\nchecks\n",
		m.Kind, clean(m.Device), clean(m.Driver), clean(m.Firmware), clean(m.Board), clean(m.Kernel), clean(m.Arch), clean(j.report.Version))
	for i := range j.report.Results {
		r := &j.report.Results[i]
		fmt.Fprintf(&b, "  %-7s %-24s %s\n", clean(string(r.Status)), clean(r.ID), clean(r.Reason))
		if r.Status == hwreport.Pass && !r.HasEvidence() {
			fmt.Fprintf(&b, "          the check has passed without evidence\n")
		}
		if r.Status == hwreport.Fail || r.Status == hwreport.Unknown {
			for _, line := range r.Evidence[:min(len(r.Evidence), 20)] {
				fmt.Fprintf(&b, "          %s\n", clean(line))
			}
		}
	}
	fmt.Fprintf(&b, "  %s\n\nrecordings\n", j.report.Summary())
	for _, rec := range j.recordings {
		fmt.Fprintf(&b, "  %s\n", rec)
	}
	for _, name := range slices.Sorted(maps.Keys(j.refused)) {
		fmt.Fprintf(&b, "  %s: refused: %s\n", clean(name), clean(j.refused[name].Error()))
	}
	if len(j.answers) > 0 {
		fmt.Fprintf(&b, "\nresponses of the kernel\n")
	}
	for _, line := range j.answers {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "\nbeliefs of the model\n")
	for i := range j.beliefs {
		j.beliefs[i].write(&b)
	}
	return b.String()
}

// maxText bounds the characters of a text from the report in a line.
const maxText = 200

// clean returns the first line of a text with printable characters only, so that it cannot control a terminal.
func clean(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f { // names and messages of rdmahw are ASCII
			return '?'
		}
		return r
	}, s[:min(len(s), maxText)])
	if s == "" {
		return "-"
	}
	return s
}
