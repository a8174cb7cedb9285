// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
)

// faultArgs maps each fault to the names of its numbers. A program in the guest injects a fault
// with a line "DEVICE FAULT NUMBERS". DEVICE is hca0 or hca1.
var faultArgs = map[string]string{
	"port-down": "", "port-up": "", "fatal": "SYNDROME", "silent": "YES",
	"lose": "MESSAGES", "lose-answers": "MESSAGES", "delay": "MESSAGES MICROSECONDS",
	"fail-qp": "QPN EVENT", "fail-next": "QPN SYNDROME", "fail-next-receive": "QPN SYNDROME", "fail-cq": "CQN", "drain": "QPN",
	"fail-command": "OPCODE STATUS SYNDROME TIMES",
	"quirks":       "EXACT-DOORBELLS RECEIVE-COUNTER-MODULO HOLD-RESIZE", "stray": "RECEIVE",
}

// run injects a fault into a device. a has as many numbers as faultArgs has names.
func (h *hcas) run(name, fault string, a []uint32) error {
	d := h.devices[name]
	switch fault {
	case "port-down", "port-up":
		d.SetPort(fault == "port-up")
	case "fatal":
		d.Fatal(uint8(a[0]))
	case "silent":
		h.fabric.Lock()
		h.silent[name] = a[0] != 0
		h.fabric.Unlock()
		h.fabric.OnPacket(h.fate)
	case "lose", "lose-answers", "delay":
		r := rule{fate: connectx.Lost, left: a[0]}
		switch fault {
		case "lose-answers":
			r.fate = connectx.AnswerLost
		case "delay":
			r.fate, r.delay = connectx.Arrives, time.Duration(a[1])*time.Microsecond
		}
		h.fabric.Lock()
		h.rules[name] = &r
		h.fabric.Unlock()
		h.fabric.OnPacket(h.fate)
	case "fail-qp":
		e := prm.EventType(a[1])
		if e != prm.EventWQCatas && e != prm.EventWQInvalidReq && e != prm.EventWQAccess {
			return errors.New("not an event of a failed QP")
		}
		return there(d.FailQP(a[0], e), "QP", a[0])
	case "fail-next":
		return there(d.FailNext(a[0], prm.Syndrome(a[1])), "QP", a[0])
	case "fail-next-receive":
		return there(d.FailNextReceive(a[0], prm.Syndrome(a[1])), "QP", a[0])
	case "fail-cq":
		return there(d.FailCQ(a[0]), "CQ", a[0])
	case "drain":
		return there(d.Drain(a[0]), "QP in RTS", a[0])
	case "fail-command":
		d.FailCommand(uint16(a[0]), prm.Status(a[1]), a[2], int(a[3]))
	case "quirks":
		d.SetQuirks(connectx.Quirks{ExactDoorbells: a[0] != 0, ReceiveCounterModulo: a[1] != 0, HoldResize: a[2] != 0})
	case "stray":
		if !d.StrayCompletion(a[0] != 0) {
			return errors.New("no destroyed QP with an existing CQ")
		}
	}
	return nil
}

func there(found bool, what string, n uint32) error {
	if !found {
		return fmt.Errorf("no %s %#x", what, n)
	}
	return nil
}

// fault executes a line.
func (h *hcas) fault(line string) error {
	err := h.doFault(strings.Fields(line))
	if err != nil {
		err = fmt.Errorf("fault %q: %w", strings.TrimSpace(line), err)
	}
	return err
}

func (h *hcas) doFault(words []string) error {
	if len(words) < 2 {
		return errors.New("want DEVICE FAULT NUMBERS")
	}
	names, ok := faultArgs[words[1]]
	if h.devices[words[0]] == nil {
		return errors.New("no such device")
	}
	if !ok {
		return errors.New("unknown fault, want one of " + strings.Join(slices.Sorted(maps.Keys(faultArgs)), ", "))
	}
	args := make([]uint32, len(words)-2)
	if len(args) != len(strings.Fields(names)) {
		return errors.New("want the numbers " + names)
	}
	for i, w := range words[2:] {
		n, err := strconv.ParseUint(w, 0, 32)
		if err != nil {
			return err
		}
		args[i] = uint32(n)
	}
	return h.run(words[0], words[1], args)
}

// A rule determines the fate of the next messages of a device. It replaces the previous rule.
type rule struct {
	fate  connectx.Fate
	delay time.Duration
	left  uint32
}

// fate implements connectx.Fabric.OnPacket. It runs with the fabric's lock held.
func (h *hcas) fate(p *connectx.Packet) (connectx.Fate, time.Duration) {
	switch {
	case h.silent[p.From]:
		return connectx.Lost, 0
	case h.silent[p.To]:
		return connectx.AnswerLost, 0
	}
	r := h.rules[p.From]
	if r == nil || r.left == 0 {
		return connectx.Arrives, 0
	}
	r.left--
	return r.fate, r.delay
}
