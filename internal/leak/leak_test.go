// SPDX-License-Identifier: Apache-2.0

package leak

import (
	"strings"
	"testing"
)

func open() *Entry { return Track("thing", "number 1") }

func TestReportNamesWhoOpened(t *testing.T) {
	if e := open(); e != nil || len(Report()) != 0 {
		t.Fatal("something is tracked while the tracer is off")
	}
	Enable()
	defer enabled.Store(false)
	e := open()
	r := Report()
	if len(r) != 1 || !strings.Contains(r[0], "thing number 1") || !strings.Contains(r[0], "TestReportNamesWhoOpened") {
		t.Fatalf("reported %q", r)
	}
	e.Done()
	e.Done()
	if r := Report(); len(r) != 0 {
		t.Errorf("reported %q after Done", r)
	}
	(*Entry)(nil).Done()
}
