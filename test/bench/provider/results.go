// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"fmt"
	"math"
	"strings"
)

// results has a figure for each subject, case and batch.
type results struct{ of map[cell]float64 }

type cell struct {
	subject string
	kind    string // "inline", "write" or "poll"
	batch   int
}

func newResults() *results { return &results{make(map[cell]float64)} }

// lower keeps the lowest of several figures.
func (r *results) lower(subject, kind string, batch int, v float64) {
	c := cell{subject, kind, batch}
	if old, ok := r.of[c]; !ok || v < old {
		r.of[c] = v
	}
}

// get returns a figure, or NaN if it was not measured.
func (r *results) get(subject, kind string, batch int) float64 {
	if v, ok := r.of[cell{subject, kind, batch}]; ok {
		return v
	}
	return math.NaN()
}

// triple formats the figures of all batches.
func triple(format string, of func(batch int) float64) string {
	var parts []string
	for _, b := range batches {
		parts = append(parts, fmt.Sprintf(format, of(b)))
	}
	return strings.Join(parts, " / ")
}

// markdown returns the table in Markdown.
func (r *results) markdown(format string) string {
	var b strings.Builder
	b.WriteString("| | inline 64 B SEND: 1 / 16 / 32 | 1-SGE WRITE: 1 / 16 / 32 | poll: 1 / 16 / 32 |\n|---|---|---|---|\n")
	for _, s := range subjects {
		fmt.Fprintf(&b, "| %s |", s.name)
		for _, kind := range []string{"inline", "write", "poll"} {
			fmt.Fprintf(&b, " %s |", triple(format, func(batch int) float64 { return r.get(s.name, kind, batch) }))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// ratios returns the table of the compared subjects, with the goals.
func ratios(ns, ir *results) string {
	var b strings.Builder
	b.WriteString("| | 1 / 16 / 32 | goal |\n|---|---|---|\n")
	for _, row := range []struct {
		what       string
		r          *results
		ours, kind string
		theirs     string
		goal       string
	}{
		{"WRITE, ns", ns, rowPost, "write", rowC, "1.0"},
		{"inline, ns", ns, rowPost, "inline", rowC, "1.05"},
		{"WRITE, instructions", ir, rowPost, "write", rowC, "1.1"},
		{"inline, instructions", ir, rowPost, "inline", rowC, "1.1"},
		{"poll, ns", ns, rowPost, "poll", rowC, "0.6"},
		{"Builder's batch of WRITEs to ibv_wr_*, ns", ns, rowBuilder, "write", rowWR, "0.75"},
		{"Builder's batch of inline to ibv_wr_*, ns", ns, rowBuilder, "inline", rowWR, "0.85"},
		{"verbs.Batch of WRITEs to ibv_wr_*, ns", ns, rowVerbs2, "write", rowWR, "0.85 / 0.66 / 0.65"},
		{"verbs.Batch of inline to ibv_wr_*, ns", ns, rowVerbs2, "inline", rowWR, ""},
		{"verbs.Batch of WRITEs to the Builder, ns", ns, rowVerbs2, "write", rowBuilder, "1.15"},
		{"verbs.Batch of inline to the Builder, ns", ns, rowVerbs2, "inline", rowBuilder, "1.15"},
		{"WRITE to cgo, ns", ns, rowPost, "write", rowCgo, "0.33 / 0.66"},
		{"inline to cgo, ns", ns, rowPost, "inline", rowCgo, "0.33 / 0.66"},
		{"poll to cgo, ns", ns, rowPost, "poll", rowCgo, "0.33 / 0.66"},
	} {
		if math.IsNaN(row.r.get(row.ours, row.kind, 1) / row.r.get(row.theirs, row.kind, 1)) {
			continue // the driver lacks a subject
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.what,
			triple("%.2f", func(batch int) float64 {
				return row.r.get(row.ours, row.kind, batch) / row.r.get(row.theirs, row.kind, batch)
			}), row.goal)
	}
	return b.String()
}

// counters returns the table of the cost of the counters, or "" if it was not measured.
func counters(ns *results) string {
	var b strings.Builder
	for _, row := range []struct{ with, without string }{{rowPost, rowPost0}, {rowBuilder, rowBuilder0}} {
		for _, kind := range []string{"inline", "write", "poll"} {
			if math.IsNaN(ns.get(row.without, kind, 1)) {
				continue // the driver lacks a subject
			}
			fmt.Fprintf(&b, "| %s, %s | %s | 1.0 |\n", row.with, kind,
				triple("%.2f", func(batch int) float64 { return ns.get(row.with, kind, batch) - ns.get(row.without, kind, batch) }))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "| | 1 / 16 / 32 | goal |\n|---|---|---|\n" + b.String()
}
