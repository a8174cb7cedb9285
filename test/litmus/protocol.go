// SPDX-License-Identifier: Apache-2.0

package litmus

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"purerdma/test/litmus/model"
)

// A Protocol is a parsed file.
type Protocol struct {
	Code     []Code
	Threads  []Thread
	Outcomes []Outcome
}

// Code names a function that a protocol describes.
type Code struct {
	File, Function string
	Texts          []string
}

// A Thread is a goroutine of the program, or the other side.
type Thread struct {
	Name   string
	Device bool
	Lines  []Line
}

// A Line is an access or a barrier.
type Line struct {
	Text  string // without the comment
	Words []string
	Arch  string // "" for both
	Spare string // architecture on which the order does not need the barrier, or ""
}

// An Outcome is a combination of values at the end.
type Outcome struct {
	Kind   string // never, sometimes or fault
	Arch   string // "" for both
	Values map[string]int
	Text   string
}

// architectures maps the names of the architectures.
var architectures = map[string]model.Arch{"amd64": model.AMD64, "arm64": model.ARM64}

// Parse parses a file.
func Parse(text string) (*Protocol, error) {
	p := &Protocol{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", number, line, err)
		}
	}
	return p, p.check()
}

func (p *Protocol) line(text string) error {
	arch := ""
	rest := text
	for name := range architectures {
		if after, ok := strings.CutPrefix(text, name+":"); ok {
			arch, rest = name, strings.TrimSpace(after)
		}
	}
	word, args, _ := strings.Cut(rest, " ")
	switch word {
	case "code":
		where, texts, ok := strings.Cut(args, ": ")
		file, function, named := strings.Cut(where, " ")
		if !ok || !named {
			return fmt.Errorf("want code FILE FUNCTION: TEXT")
		}
		p.Code = append(p.Code, Code{file, function, strings.Split(texts, "; ")})
	case "thread", "kernel", "device":
		p.Threads = append(p.Threads, Thread{Name: word + " " + args, Device: word == "device"})
	case "never", "sometimes", "fault":
		o := Outcome{Kind: word, Arch: arch, Values: map[string]int{}, Text: args}
		for cond := range strings.FieldsSeq(args) {
			name, value, _ := strings.Cut(cond, "=")
			v, err := strconv.Atoi(value)
			if err != nil {
				return fmt.Errorf("%s: want NAME=NUMBER", cond)
			}
			o.Values[name] = v
		}
		p.Outcomes = append(p.Outcomes, o)
	default:
		if len(p.Threads) == 0 {
			return fmt.Errorf("an operation before the first thread")
		}
		rest, spare, _ := strings.Cut(rest, " spare ")
		line := Line{Text: rest, Words: strings.Fields(rest), Arch: arch, Spare: strings.TrimSpace(spare)}
		if _, err := line.ops(model.ARM64); err != nil {
			return err
		}
		t := &p.Threads[len(p.Threads)-1]
		t.Lines = append(t.Lines, line)
	}
	return nil
}

// check checks that a file is complete, and that its names are unique.
func (p *Protocol) check() error {
	registers, locs, stored := map[string]bool{}, map[string]bool{}, map[string]map[int]bool{}
	for _, t := range p.Threads {
		for _, l := range t.Lines {
			ops, _ := l.ops(model.ARM64)
			for _, op := range ops {
				if op.Kind == model.If && !registers[op.Reg] {
					return fmt.Errorf("%s: unknown register %s", l.Text, op.Reg)
				}
				if op.Reg != "" && op.Kind != model.If {
					if registers[op.Reg] {
						return fmt.Errorf("%s: register %s is set twice", l.Text, op.Reg)
					}
					registers[op.Reg] = true
				}
				if op.Loc != "" {
					locs["["+op.Loc+"]"] = true
				}
				if op.Kind == model.Store || op.Kind == model.Swap && op.Value != 0 {
					if stored[op.Loc] == nil {
						stored[op.Loc] = map[int]bool{}
					}
					if stored[op.Loc][op.Value] {
						return fmt.Errorf("%s: %s is set to %d twice", l.Text, op.Loc, op.Value)
					}
					stored[op.Loc][op.Value] = true
				}
			}
		}
	}
	kinds := map[string]bool{}
	for _, o := range p.Outcomes {
		kinds[o.Kind] = true
		for name := range o.Values {
			if !registers[name] && !locs[name] {
				return fmt.Errorf("%s %s: unknown name %s", o.Kind, o.Text, name)
			}
		}
	}
	if len(p.Threads) < 2 || len(p.Code) == 0 || !kinds["never"] || !kinds["sometimes"] {
		return fmt.Errorf("want two threads, code, and an outcome of each kind, got %d, %d, %v", len(p.Threads), len(p.Code), slices.Sorted(maps.Keys(kinds)))
	}
	return nil
}
