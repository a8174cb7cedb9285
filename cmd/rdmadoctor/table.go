// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"purerdma/rdmanl"
)

// table formats a state as lines. before is the previous state, for the rates of counters.
func table(now, before state) []string {
	var buf bytes.Buffer
	w := tabwriter.NewWriter(&buf, 0, 8, 2, ' ', 0)
	row := func(columns ...any) {
		for i, c := range columns {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, printable(fmt.Sprint(c)))
		}
		fmt.Fprintln(w)
	}
	row("DEVICE", "PORT", "STATE", "LINK", "INTERFACE", "PROTOCOL", "QPS", "QP STATES", "CQS", "MRS", "PDS", "SRQS", "CM_IDS", "CONTEXTS")
	for _, d := range now.devices {
		for _, p := range d.ports {
			row(d.Name, p.Number, p.State, p.PhysState, orDash(p.Interface), orDash(d.Protocol), d.summary.N("qp"), states(d.qps),
				d.summary.N("cq"), d.summary.N("mr"), d.summary.N("pd"), d.summary.N("srq"), d.summary.N("cm_id"), d.summary.N("ctx"))
		}
	}
	fmt.Fprintln(w)
	row("DEVICE", "CONNECTION", "LOCAL", "REMOTE", "QP", "TYPE", "QP STATE", "PID", "COMMAND")
	for _, d := range now.devices {
		for _, r := range connections(d) {
			row(r...)
		}
	}
	fmt.Fprintln(w)
	row("DEVICE", "PORT", "COUNTER", "RATE", "TOTAL")
	elapsed := now.time.Sub(before.time)
	for _, d := range now.devices {
		for _, p := range d.ports {
			old := before.counters(d.Index, p.Number)
			for _, c := range p.counters {
				if c.Value == 0 {
					continue
				}
				prev, known := old[c.Name]
				row(d.Name, p.Number, c.Name, rate(prev, c.Value, elapsed, known), c.Value)
			}
		}
	}
	for _, d := range now.devices {
		for _, p := range d.problems {
			fmt.Fprintf(w, "\n%s: %s\n", printable(d.Name), printable(p))
		}
	}
	w.Flush()
	lines := strings.Split(strings.TrimRight(buf.String(), "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return lines
}

// printable replaces characters that would control the terminal. Processes choose their own names.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// numberOrDash formats a number whose zero means that it is not known.
func numberOrDash(n uint32) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(uint64(n), 10)
}

// states counts the QPs in each state, as "2 RTS, 1 ERR".
func states(qps []rdmanl.QP) string {
	counts := map[rdmanl.QPState]int{}
	var seen []rdmanl.QPState
	for _, q := range qps {
		if counts[q.State]++; counts[q.State] == 1 {
			seen = append(seen, q.State)
		}
	}
	slices.Sort(seen)
	var parts []string
	for _, s := range seen {
		parts = append(parts, fmt.Sprintf("%d %v", counts[s], s))
	}
	return orDash(strings.Join(parts, ", "))
}

// connections returns a row for each ID of the connection manager, and for each connected QP without an
// ID.
func connections(d deviceState) [][]any {
	qps := map[uint32]rdmanl.QP{}
	for _, q := range d.qps {
		qps[q.Number] = q
	}
	ids := slices.Clone(d.ids)
	slices.SortStableFunc(ids, func(a, b rdmanl.CMID) int {
		if a.State != b.State && (a.State == rdmanl.CMListen || b.State == rdmanl.CMListen) {
			return int(b.State) - int(a.State) // listeners first
		}
		if n := a.Local.Compare(b.Local); n != 0 {
			return n
		}
		return a.Remote.Compare(b.Remote)
	})
	var rows [][]any
	for _, id := range ids {
		qp, qpType, qpState := "-", "-", "-"
		if id.QP != 0 {
			qp, qpType = numberOrDash(id.QP), id.QPType.String()
			if q, ok := qps[id.QP]; ok {
				qpState = q.State.String()
			}
			delete(qps, id.QP)
		}
		rows = append(rows, []any{d.Name, id.State, endpoint(id.Local), endpoint(id.Remote), qp, qpType, qpState, numberOrDash(id.PID), orDash(id.Comm())})
	}
	for _, q := range d.qps {
		if _, ok := qps[q.Number]; ok && q.RemoteNumber != 0 {
			rows = append(rows, []any{d.Name, "no CM_ID", "-", fmt.Sprintf("QP %d", q.RemoteNumber), q.Number, q.Type, q.State, numberOrDash(q.PID), orDash(q.Comm())})
		}
	}
	return rows
}

// endpoint formats an address, and "-" for none.
func endpoint(a netip.AddrPort) string {
	if !a.IsValid() || a.Addr().IsUnspecified() && a.Port() == 0 {
		return "-"
	}
	return a.String()
}

// counters returns the values of the counters of a port.
func (s state) counters(device, port uint32) map[string]uint64 {
	values := map[string]uint64{}
	for _, d := range s.devices {
		if d.Index != device {
			continue
		}
		for _, p := range d.ports {
			if p.Number != port {
				continue
			}
			for _, c := range p.counters {
				values[c.Name] = c.Value
			}
		}
	}
	return values
}

// rate formats the growth of a counter per second. Without a previous value, and after a reset of the
// counter, it is not known.
func rate(before, now uint64, elapsed time.Duration, known bool) string {
	if !known || now < before || elapsed <= 0 {
		return "-"
	}
	n := float64(now-before) / elapsed.Seconds()
	if n == 0 || n >= 10 {
		return strconv.FormatFloat(n, 'f', 0, 64) + "/s"
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + "/s"
}
