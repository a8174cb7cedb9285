// SPDX-License-Identifier: Apache-2.0

// Package hwreport holds the report of rdmahw about a device: its form as JSON, as a page of text
// and as an archive.
package hwreport

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Status is the outcome of a check.
type Status string

// Outcomes of checks.
const (
	Pass    Status = "PASS"
	Fail    Status = "FAIL"
	Skip    Status = "SKIP"    // a precondition is not met
	Unknown Status = "UNKNOWN" // the check observed something that it cannot judge
)

// Kind is the kind of a device.
type Kind string

// Kinds of devices.
const (
	Card     Kind = "card"
	Model    Kind = "model"    // a modeled device of the project
	Software Kind = "software" // rxe and siw
	Unclear  Kind = "unclear"  // a card or a model. The host does not show which
)

// Result is the outcome of one check.
type Result struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Status  Status  `json:"status"`
	Reason  string  `json:"reason,omitempty"` // of every status except PASS
	Seconds float64 `json:"seconds"`
	// Evidence has lines of observations.
	Evidence []string `json:"evidence,omitempty"`
	// Counters has the changes of the port's counters during the check.
	Counters map[string]int64 `json:"counters,omitempty"`
}

// UnexplainedCompletions is a part of the reason of a check whose device has written completions that the driver could not
// assign to a request.
const UnexplainedCompletions = "completions that no request explains"

// Unexplained reports whether the check only failed to pass because of such completions.
func (r *Result) Unexplained() bool {
	return r.Status == Unknown && strings.Contains(r.Reason, UnexplainedCompletions)
}

// HasEvidence reports whether the check has observed anything.
func (r *Result) HasEvidence() bool { return len(r.Evidence) > 0 || len(r.Counters) > 0 }

// Machine describes a device and its host. It has no name or address of the host.
type Machine struct {
	Kind     Kind   `json:"kind"`
	Device   string `json:"device"`
	Driver   string `json:"driver"`
	Board    string `json:"board,omitempty"`    // of the vendor, such as a PSID
	Firmware string `json:"firmware,omitempty"` // version
	PCI      string `json:"pci,omitempty"`      // vendor:device
	Link     string `json:"link,omitempty"`     // link layer, rate and MTU
	Kernel   string `json:"kernel"`
	Arch     string `json:"arch"`
	PageSize int    `json:"page_size"`
	CPUs     int    `json:"cpus"`
	// Facts has all other observations by their names.
	Facts map[string]string `json:"facts,omitempty"`
}

// Report is the report about one device.
type Report struct {
	Version string    `json:"version"` // of rdmahw
	Date    time.Time `json:"date"`
	Peer    string    `json:"peer"` // "loopback" or "another host"
	Machine Machine   `json:"machine"`
	Results []Result  `json:"results"`
}

// Count returns the number of results with a status.
func (r *Report) Count(s Status) (n int) {
	for i := range r.Results {
		if r.Results[i].Status == s {
			n++
		}
	}
	return n
}

// Summary returns the number of results with each status.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped, %d unknown", r.Count(Pass), r.Count(Fail), r.Count(Skip), r.Count(Unknown))
}

// Text returns the report as a page of text.
func (r *Report) Text() string {
	var b strings.Builder
	m := &r.Machine
	fmt.Fprintf(&b, "%s %s, driver %s, firmware %s, board %s\n", m.Kind, m.Device, m.Driver, or(m.Firmware), or(m.Board))
	fmt.Fprintf(&b, "link %s; Linux %s, %s, %d CPUs, pages of %d bytes\n", or(m.Link), m.Kernel, m.Arch, m.CPUs, m.PageSize)
	fmt.Fprintf(&b, "%s, %s, peer: %s\n\n", r.Version, r.Date.UTC().Format(time.RFC3339), r.Peer)
	for i := range r.Results {
		b.WriteString(r.Results[i].Line())
	}
	fmt.Fprintf(&b, "\n%s (%s)\n", r.Summary(), m.Kind)
	return b.String()
}

// Line returns the result as a line of text.
func (r *Result) Line() string {
	line := fmt.Sprintf("%-7s %-18s %6.1fs  %s", r.Status, r.ID, r.Seconds, r.Title)
	if r.Reason != "" {
		first, _, _ := strings.Cut(r.Reason, "\n")
		line += ": " + first
	}
	return line + "\n"
}

// or returns s, or a dash if s is empty.
func or(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Read reads a report as JSON.
func Read(in io.Reader) (*Report, error) {
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	r := new(Report)
	if err := dec.Decode(r); err != nil {
		return nil, fmt.Errorf("read a report of rdmahw: %w", err)
	}
	if !slices.Contains([]Kind{Card, Model, Software, Unclear}, r.Machine.Kind) {
		return nil, fmt.Errorf("read a report of rdmahw: unknown kind of device %q", r.Machine.Kind)
	}
	return r, nil
}
