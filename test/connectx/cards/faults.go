// SPDX-License-Identifier: Apache-2.0

package cards

import (
	"errors"
	"fmt"
	"time"

	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// faultArgs maps each fault to the names of its numbers.
var faultArgs = map[string]string{
	"port-down": "", "port-up": "", "fatal": "SYNDROME", "silent": "YES", "removing": "YES",
	"lose": "MESSAGES", "lose-answers": "MESSAGES", "delay": "MESSAGES MICROSECONDS",
	"fail-qp": "QPN EVENT", "fail-next": "QPN SYNDROME", "fail-next-receive": "QPN SYNDROME", "fail-cq": "CQN", "drain": "QPN",
	"fail-command": "OPCODE STATUS SYNDROME TIMES",
	"quirks":       "EXACT-DOORBELLS RECEIVE-COUNTER-MODULO HOLD-RESIZE", "stray": "RECEIVE",
}

// run injects a fault into a device. a has as many numbers as faultArgs has names.
func (f *Fabric) run(name, fault string, a []uint32) error {
	d := f.devices[name]
	switch fault {
	case "port-down", "port-up":
		d.SetPort(fault == "port-up")
	case "fatal":
		d.Fatal(uint8(a[0]))
	case "silent":
		f.Lock()
		f.silent[name] = a[0] != 0
		f.Unlock()
		f.OnPacket(f.fate)
	case "removing":
		d.SetRemoving(a[0] != 0)
	case "lose", "lose-answers", "delay":
		r := rule{fate: connectx.Lost, left: a[0]}
		switch fault {
		case "lose-answers":
			r.fate = connectx.AnswerLost
		case "delay":
			r.fate, r.delay = connectx.Arrives, time.Duration(a[1])*time.Microsecond
		}
		f.Lock()
		f.rules[name] = &r
		f.Unlock()
		f.OnPacket(f.fate)
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

// Fault implements pci.Fabric.
func (f *Fabric) Fault(name, fault string, args []string) error {
	if f.devices[name] == nil {
		return errors.New("no such device")
	}
	numbers, err := pci.FaultNumbers(faultArgs, fault, args)
	if err != nil {
		return err
	}
	return f.run(name, fault, numbers)
}

// A rule determines the fate of the next messages of a device. It replaces the previous rule.
type rule struct {
	fate  connectx.Fate
	delay time.Duration
	left  uint32
}

// fate implements connectx.Fabric.OnPacket. It runs with the fabric's lock held.
func (f *Fabric) fate(p *connectx.Packet) (connectx.Fate, time.Duration) {
	switch {
	case f.silent[p.From]:
		return connectx.Lost, 0
	case f.silent[p.To]:
		return connectx.AnswerLost, 0
	}
	r := f.rules[p.From]
	if r == nil || r.left == 0 {
		return connectx.Arrives, 0
	}
	r.left--
	return r.fate, r.delay
}
