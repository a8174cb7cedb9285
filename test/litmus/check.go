// SPDX-License-Identifier: Apache-2.0

package litmus

import (
	"fmt"
	"reflect"
	"slices"

	"purerdma/test/litmus/model"
)

// program returns the threads for package model. The line number line of the thread number thread
// loses its barrier. Negative numbers keep all barriers.
func (p *Protocol) program(arch model.Arch, thread, line int) ([]model.Thread, error) {
	var out []model.Thread
	for i, t := range p.Threads {
		th := model.Thread{Device: t.Device}
		for j := range t.Lines {
			l := &t.Lines[j]
			if i == thread && j == line {
				if l, _ = l.without(); l == nil {
					continue
				}
			}
			ops, err := l.ops(arch)
			if err != nil {
				return nil, err
			}
			th.Ops = append(th.Ops, ops...)
		}
		out = append(out, th)
	}
	return out, nil
}

// possible reports for each outcome whether it is possible.
func (p *Protocol) possible(arch model.Arch, threads []model.Thread) []bool {
	found := make([]bool, len(p.Outcomes))
	model.Outcomes(arch, threads, func(got model.Outcome) bool {
		for i, want := range p.Outcomes {
			holds := true
			for name, v := range want.Values {
				g, ok := got[name]
				holds = holds && ok && g == v
			}
			found[i] = found[i] || holds
		}
		return true
	})
	return found
}

// wrong returns the first outcome that does not have its kind on an architecture, or "".
func (p *Protocol) wrong(name string, found []bool) string {
	for i, o := range p.Outcomes {
		if o.Arch != "" && o.Arch != name {
			continue
		}
		switch {
		case o.Kind == "never" && found[i]:
			return fmt.Sprintf("%s is possible", o.Text)
		case o.Kind != "never" && !found[i]:
			return fmt.Sprintf("%s is not possible", o.Text)
		}
	}
	return ""
}

// A Result is the result of a check.
type Result struct {
	Problems []string
	Needed   int // barriers whose removal makes a forbidden outcome possible
	Spare    int // barriers whose removal does not
}

// Check checks the protocol on an architecture, with all barriers, and without each barrier. If the
// kernel has a fault there, it only checks the outcomes. Another file then describes a correct kernel.
func (p *Protocol) Check(name string) (r Result) {
	arch := architectures[name]
	all, err := p.program(arch, -1, -1)
	if err != nil {
		return Result{Problems: []string{err.Error()}}
	}
	if w := p.wrong(name, p.possible(arch, all)); w != "" {
		r.Problems = append(r.Problems, w)
	}
	for i, t := range p.Threads {
		if p.faulty(name) {
			break
		}
		for j, l := range t.Lines {
			if _, barrier := l.without(); !barrier || t.Device {
				continue
			}
			weak, err := p.program(arch, i, j)
			if err != nil {
				r.Problems = append(r.Problems, err.Error())
				continue
			}
			if reflect.DeepEqual(weak, all) {
				continue // no barrier on this architecture
			}
			noticed := p.forbidden(name, p.possible(arch, weak))
			switch {
			case noticed && l.Spare == name:
				r.Problems = append(r.Problems, fmt.Sprintf("%s: %q is not spare", t.Name, l.Text))
			case !noticed && l.Spare != name:
				r.Problems = append(r.Problems, fmt.Sprintf("%s: nothing notices the removal of %q", t.Name, l.Text))
			case noticed:
				r.Needed++
			default:
				r.Spare++
			}
		}
	}
	return r
}

// faulty reports whether the kernel has a fault on an architecture.
func (p *Protocol) faulty(name string) bool {
	return slices.ContainsFunc(p.Outcomes, func(o Outcome) bool { return o.Kind == "fault" && (o.Arch == "" || o.Arch == name) })
}

// forbidden reports whether a forbidden outcome is possible.
func (p *Protocol) forbidden(name string, found []bool) bool {
	for i, o := range p.Outcomes {
		if o.Kind == "never" && (o.Arch == "" || o.Arch == name) && found[i] {
			return true
		}
	}
	return false
}
