// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"strings"
	"testing"

	"purerdma/test/pci"
)

// TestFaults injects each fault into the first of two devices.
func TestFaults(t *testing.T) {
	a, b := newPair(t)
	f := a.r.d.fabric
	f.devices["first"] = a.r.d
	fault := func(line string) error {
		w := strings.Fields(line)
		return f.Fault(w[0], w[1], w[2:])
	}
	m, to := a.r.reg(localRead), b.r.reg(allRights)
	if err := fault("first silent 1"); err != nil {
		t.Fatalf("Fault(silent 1) = %v, want nil", err)
	}
	a.post(writeOf(opWrite, 0, m, to, 1))
	b.post(writeOf(opWrite, 0, to, m, 0))
	if x, y := a.cq.poll(), b.cq.poll(); x != nil || y != nil {
		t.Errorf("completions while a device is silent = %+v, %+v, want none", x, y)
	}
	if err := fault("first silent 0"); err != nil {
		t.Fatalf("Fault(silent 0) = %v, want nil", err)
	}
	want(t, a, completion{opcode: opWrite})
	want(t, b, completion{opcode: opWrite})

	for line, text := range map[string]string{
		"none silent 1":        "no such device",
		"first explode":        "unknown fault, want one of fail-next, fail-qp, silent",
		"first silent":         "want the numbers YES",
		"first silent x":       `"x"`,
		"first fail-qp 9":      "no connected QP 0x9",
		"first fail-next 5 0":  "no status 0 of an error",
		"first fail-next 5 17": "no status 17 of an error",
	} {
		if err := fault(line); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Fault(%q) = %v, want %q", line, err, text)
		}
	}

	if err := fault("first fail-next 5 0x10"); err != nil {
		t.Fatalf("Fault(fail-next) = %v, want nil", err)
	}
	a.post(writeOf(opWrite, 0, m, to, 1))
	want(t, a, completion{opcode: opWrite, status: statusRetries, index: 2})
	wantEvent(t, a, eventQPFatal)
	wantEvent(t, b, eventQPFatal)

	c, d := a.r.newQP(8), b.r.newQP(9)
	connect(t, c, d)
	d.recv(to, 0, 1)
	if err := fault("first fail-qp 8"); err != nil {
		t.Fatalf("Fault(fail-qp) = %v, want nil", err)
	}
	want(t, d, completion{queue: queueReceive, opcode: opReceive, status: statusFlushed})
	wantEvent(t, c, eventQPFatal)
	wantEvent(t, d, eventQPFatal)
}

var _ pci.Fabric = (*Fabric)(nil)
