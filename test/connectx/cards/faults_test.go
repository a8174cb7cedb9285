// SPDX-License-Identifier: Apache-2.0

package cards

import (
	"strings"
	"testing"
	"time"

	"purerdma/test/connectx"
	"purerdma/test/pci"
)

// noMemory is a host without memory.
type noMemory struct{}

func (noMemory) Bytes(uint64, int) []byte { return nil }

// newFabric returns a fabric with the cards hca0 and hca1.
func newFabric() *Fabric {
	f := New().(*Fabric)
	for _, name := range []string{"hca0", "hca1"} {
		f.Connect(pci.Options{Name: name, Memory: noMemory{}})
	}
	return f
}

// fault executes a line of a device, a fault and its arguments.
func (f *Fabric) fault(line string) error {
	w := strings.Fields(line)
	return f.Fault(w[0], w[1], w[2:])
}

// TestFaults checks the effect of valid faults and the error of invalid ones.
func TestFaults(t *testing.T) {
	f := newFabric()
	for line, want := range map[string]string{
		"hca0 port-down": "", "hca1 port-up": "", "hca1 fatal 0x7": "",
		"hca0 fail-command 0x400 0x3 0xabcd 1": "",
		"hca0 quirks 1 1 1":                    "",
		"hca0 stray 0":                         "no destroyed QP",
		"hca2 port-up":                         "no such device",
		"hca0 explode":                         "unknown fault, want one of delay, drain, fail-command, fail-cq, ",
		"hca0 lose":                            "want the numbers MESSAGES",
		"hca0 delay 1":                         "want the numbers MESSAGES MICROSECONDS",
		"hca0 lose -1":                         `"-1"`,
		"hca0 lose 0x100000000":                "out of range",
		"hca0 fail-qp 77 0x10":                 "no QP 0x4d",
		"hca0 fail-qp 77 1":                    "not an event",
		"hca0 fail-next 77 5":                  "no QP 0x4d",
		"hca0 fail-next-receive 77 5":          "no QP 0x4d",
		"hca0 drain 77":                        "no QP in RTS 0x4d",
		"hca0 fail-cq 9":                       "no CQ 0x9",
	} {
		err := f.fault(line)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("fault(%q) = %v, want %q", line, err, want)
		}
	}
}

// TestRules checks that a rule applies to as many of a device's messages as its line specifies.
func TestRules(t *testing.T) {
	f := newFabric()
	for _, line := range []string{"hca0 delay 5 1", "hca0 lose 2", "hca1 delay 1 3000"} {
		if err := f.fault(line); err != nil {
			t.Fatalf("f.fault: %v", err)
		}
	}
	for i, want := range []connectx.Fate{connectx.Lost, connectx.Lost, connectx.Arrives} {
		if got, delay := f.fate(&connectx.Packet{From: "hca0"}); got != want || delay != 0 {
			t.Errorf("fate of message %d = %v, %v", i, got, delay)
		}
	}
	if got, delay := f.fate(&connectx.Packet{From: "hca1"}); got != connectx.Arrives || delay != 3*time.Millisecond {
		t.Errorf("fate of the other device's message = %v, %v, want Arrives after 3 ms", got, delay)
	}
	if err := f.fault("hca1 silent 1"); err != nil {
		t.Fatalf("f.fault: %v", err)
	}
	if got, _ := f.fate(&connectx.Packet{From: "hca1", To: "hca0"}); got != connectx.Lost {
		t.Errorf("fate of a silent device's message = %v, want Lost", got)
	}
	if got, _ := f.fate(&connectx.Packet{From: "hca0", To: "hca1"}); got != connectx.AnswerLost {
		t.Errorf("fate of a message to a silent device = %v, want AnswerLost", got)
	}
	if err := f.fault("hca1 silent 0"); err != nil {
		t.Fatalf("f.fault: %v", err)
	}
	if err := f.fault("hca0 lose-answers 1"); err != nil {
		t.Fatalf("f.fault: %v", err)
	}
	if got, _ := f.fate(&connectx.Packet{From: "hca0"}); got != connectx.AnswerLost {
		t.Errorf("fate = %v, want AnswerLost", got)
	}
}

// FuzzFault checks that any arguments of a program in a virtual machine are either executed or
// rejected.
func FuzzFault(f *testing.F) {
	fabric := newFabric()
	for name, args := range faultArgs {
		n := len(strings.Fields(args))
		f.Add("hca0", name, strings.Repeat(" 1", n))
		f.Add("hca0", name, strings.Repeat(" 0xffffffff", n))
	}
	f.Add("hca9", "lose", "3")
	f.Add("hca0", "lose", "-1 \x00")
	f.Fuzz(func(t *testing.T, device, fault, args string) {
		err := fabric.Fault(device, fault, strings.Fields(args))
		if _, known := faultArgs[fault]; err == nil && !known {
			t.Errorf("Fault(%q, %q, %q) = nil, want an error", device, fault, args)
		}
	})
}
