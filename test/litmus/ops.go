// SPDX-License-Identifier: Apache-2.0

package litmus

import (
	"fmt"
	"strconv"
	"strings"

	"purerdma/test/litmus/model"
)

// instructions are the fences of the assembly, and the functions of the kernel that are fences.
// amd64 keeps stores in order with stores and loads with loads, so smp_wmb is none there.
var instructions = map[string]map[model.Arch]model.FenceKind{
	"SFENCE":    {model.AMD64: model.SFENCE},
	"DMB OSHST": {model.ARM64: model.DMBOSHST},
	"DSB ST":    {model.ARM64: model.DSBST},
	"smp_wmb":   {model.ARM64: model.DMBISHST},
	"smp_mb":    {model.AMD64: model.MFENCE, model.ARM64: model.DMBISH},
}

// shape describes the arguments of an operation, and its plain form without the barrier.
type shape struct {
	args  string // letters of: r register, l location, v value
	plain string // "" if the operation is no barrier
}

var shapes = map[string]shape{
	"load": {"rl", ""}, "store": {"lv", ""}, "swap": {"rlv", ""}, "register": {"lv", ""}, "if": {"r", ""},
	"atomic.load": {"rl", "load"}, "atomic.store": {"lv", "store"}, "atomic.swap": {"rlv", "swap"}, "release": {"lv", "store"},
	"READ_ONCE": {"rl", ""}, "WRITE_ONCE": {"lv", ""}, "smp_load_acquire": {"rl", "load"}, "smp_store_release": {"lv", "store"},
	"smp_store_mb": {"lv", "store"}, "spin_lock": {"rlv", "swap"}, "spin_unlock": {"lv", "store"},
}

// ops returns the operations of a line on an architecture.
func (l *Line) ops(arch model.Arch) ([]model.Op, error) {
	if l.Arch != "" && architectures[l.Arch] != arch {
		return nil, nil
	}
	if fences, ok := instructions[l.Text]; ok {
		if f, ok := fences[arch]; ok {
			return []model.Op{{Kind: model.Fence, Fence: f}}, nil
		}
		if l.Arch != "" {
			return nil, fmt.Errorf("%s is no instruction of %s", l.Text, l.Arch)
		}
		return nil, nil
	}
	s, ok := shapes[l.Words[0]]
	if !ok || len(l.Words) != len(s.args)+1 {
		return nil, fmt.Errorf("want an operation with its arguments")
	}
	var op model.Op
	for i, kind := range s.args {
		word := l.Words[i+1]
		switch kind {
		case 'r':
			op.Reg = word
		case 'l':
			op.Loc = word
		case 'v':
			v, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("%s: want a number", word)
			}
			op.Value = v
		}
	}
	switch l.Words[0] {
	case "load", "READ_ONCE":
		op.Kind = model.Load
	case "atomic.load", "smp_load_acquire":
		op.Kind, op.Acquire = model.Load, true
	case "store", "WRITE_ONCE":
		op.Kind = model.Store
	case "release", "smp_store_release", "spin_unlock":
		op.Kind, op.Release = model.Store, true
	case "atomic.store":
		op.Kind, op.Release = model.Store, true
		if arch == model.AMD64 { // Go's compiler uses XCHG
			op = model.Op{Kind: model.Swap, Loc: op.Loc, Value: op.Value, Reg: "xchg." + strings.Join(l.Words[1:], ".")}
		}
	case "register":
		op.Kind, op.Combining = model.Store, true
	case "swap":
		op.Kind = model.Swap
	case "atomic.swap":
		op.Kind, op.Acquire, op.Release = model.Swap, true, true
	case "spin_lock":
		op.Kind, op.Acquire = model.Swap, true
	case "smp_store_mb":
		op.Kind = model.Store // the fence follows
		fence := model.Op{Kind: model.Fence, Fence: instructions["smp_mb"][arch]}
		return []model.Op{op, fence}, nil
	case "if":
		op.Kind = model.If
	}
	if arch == model.AMD64 { // any load acquires, and any store releases
		op.Acquire, op.Release = false, false
	}
	return []model.Op{op}, nil
}

// without returns the line without its barrier. ok reports whether the line has one.
func (l *Line) without() (plain *Line, ok bool) {
	if _, ok := instructions[l.Text]; ok {
		return nil, true
	}
	name := shapes[l.Words[0]].plain
	if name == "" {
		return l, false
	}
	words := append([]string{name}, l.Words[1:]...)
	return &Line{Text: strings.Join(words, " "), Words: words, Arch: l.Arch}, true
}
