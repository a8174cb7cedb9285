// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// operationsInFlight is the number of operations that one goroutine has in flight. manyGoroutines is the number of
// goroutines that are compared with one.
const (
	operationsInFlight = 16
	manyGoroutines     = 8
)

// The goals of the operations.
const (
	goalMore = 250 // nanoseconds more than PostSend and Poll
	goalGain = 1.5 // rate of many goroutines on two processors, divided by the rate of one
)

// connRow is a subject that runs operations of a Conn. It prints the nanoseconds and the allocations of an operation.
type connRow struct {
	subject
	kind   string
	number int // operations, or goroutines
	pinned bool
	// than is the row that it is compared with, nil if none.
	than *connRow
	goal string
}

func inFlight(name, kind string) *connRow {
	return &connRow{subject: subject{name: name, bin: "ours", args: []string{"conn"}}, kind: kind, number: operationsInFlight, pinned: true}
}

func byGoroutines(name, kind string, n int, than *connRow, goal string) *connRow {
	return &connRow{subject: subject{name: name, bin: "ours", args: []string{"goroutines"}}, kind: kind, number: n, than: than, goal: goal}
}

// connRows lists the rows.
func connRows() []*connRow {
	post, start := inFlight("PostSend and Poll on the QP of a Conn, 16 in flight", "post"), inFlight("Conn.StartWrite and Op.Wait, 16 in flight", "start")
	start.than, start.goal = post, fmt.Sprintf("%d ns more, no allocation", goalMore)
	alone := byGoroutines("Conn.Write, 1 goroutine", "shared", 1, nil, "")
	late := byGoroutines("Conn.Write, 1 goroutine, completion after 2 µs", "late", 1, nil, "")
	gain := fmt.Sprintf("at least %.1f", goalGain)
	return []*connRow{
		post, start, alone,
		byGoroutines("Conn.Write, 8 goroutines", "shared", manyGoroutines, alone, gain),
		byGoroutines("Conn.Write, 8 goroutines with a Conn each", "own", manyGoroutines, alone, ""),
		late,
		byGoroutines("Conn.Write, 8 goroutines, completion after 2 µs", "late", manyGoroutines, late, gain),
	}
}

// reportConn measures the operations of a Conn and prints their table.
func (p *programs) reportConn(ctx context.Context, o options) error {
	if n := runtime.NumCPU(); n < 2 {
		return fmt.Errorf("goroutines on two processors need two processors, not %d (-only post)", n)
	}
	ns, allocs, rows := newResults(), newResults(), connRows()
	for i := range o.repeat {
		fmt.Fprintf(os.Stderr, "bench/provider: measuring operations of a Conn, %d of %d\n", i+1, o.repeat)
		for _, s := range rows {
			var behind []string
			rounds := max(1, o.rounds/50) // rounds of goroutines are longer
			if s.pinned {
				behind, rounds = pin(o), o.rounds
			}
			time, count, err := p.run(ctx, &s.subject, s.kind, s.number, rounds, behind...)
			if err != nil {
				return err
			}
			ns.lower(s.name, s.kind, s.number, time)
			allocs.lower(s.name, s.kind, s.number, count)
		}
	}
	fmt.Print("\n", connTable(rows, ns, allocs))
	return nil
}

// connTable returns the table of the operations, with the goals.
func connTable(rows []*connRow, ns, allocs *results) string {
	var b strings.Builder
	b.WriteString("| WRITE of 64 B | ns | allocations | compared | goal |\n|---|---|---|---|---|\n")
	for _, s := range rows {
		t := ns.get(s.name, s.kind, s.number)
		compared := ""
		switch {
		case s.than == nil:
		case s.pinned:
			compared = fmt.Sprintf("%.0f ns more", t-ns.get(s.than.name, s.than.kind, s.than.number))
		default:
			compared = fmt.Sprintf("%.2f times the rate of one", ns.get(s.than.name, s.than.kind, s.than.number)/t)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.2g | %s | %s |\n", s.name, t, allocs.get(s.name, s.kind, s.number), compared, s.goal)
	}
	return b.String()
}
