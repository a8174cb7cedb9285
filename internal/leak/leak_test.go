// SPDX-License-Identifier: Apache-2.0

package leak

import (
	"strings"
	"testing"
)

func open() *Entry { return Track("thing", "number 1") }

func TestReportNamesTheOpener(t *testing.T) {
	if e := open(); e != nil || len(Report()) != 0 {
		t.Fatalf("Track() = %v with %d reports while the tracer is off, want nil and none", e, len(Report()))
	}
	Enable()
	defer enabled.Store(false)
	e := open()
	r := Report()
	if len(r) != 1 || !strings.Contains(r[0], "thing number 1") || !strings.Contains(r[0], "TestReportNamesTheOpener") {
		t.Fatalf("Report() = %q, want one report with the name and the stack", r)
	}
	e.Done()
	e.Done()
	if r := Report(); len(r) != 0 {
		t.Errorf("Report() after Done = %q, want none", r)
	}
	(*Entry)(nil).Done()
}
