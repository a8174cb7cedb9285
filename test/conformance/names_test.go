// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	"purerdma/cm"
	abisource "purerdma/test/abi/source"
)

// TestEventNames checks that an event's name equals its constant's, as in rdma_event_str(3).
func TestEventNames(t *testing.T) {
	p, err := abisource.Load(moduleRoot(t))
	if err != nil {
		t.Fatalf("abisource.Load: %v", err)
	}
	n := 0
	for name, c := range p.Consts {
		if !strings.HasPrefix(name, "RDMA_CM_EVENT_") {
			continue
		}
		n++
		if got := cm.EventType(c.Value.Uint64()).String(); got != name {
			t.Errorf("String() of %s, number %v = %s", name, c.Value, got)
		}
	}
	if n != 20 {
		t.Errorf("%d events, want 20", n)
	}
}
