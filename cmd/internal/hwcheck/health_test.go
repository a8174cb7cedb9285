// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"testing"
)

// reporters of two devices, one of them with a port.
const reportersText = `{"health":{"pci/0000:3b:00.0":[{"reporter":"fw","state":"healthy","error":0,"recover":0,"auto_dump":true},` +
	`{"reporter":"fw_fatal","state":"%s","error":%d,"recover":0,"grace_period":60000,"auto_recover":true}],` +
	`"pci/0000:3b:00.0/65535":[{"reporter":"tx","state":"healthy","error":0,"recover":0}],"pci/0000:3b:00.01":[{"reporter":"fw","state":"error"}]}}`

func parsed(t *testing.T, state string, errors int) []reporter {
	t.Helper()
	list, err := parseReporters(fmt.Appendf(nil, reportersText, state, errors), "0000:3b:00.0")
	if err != nil || len(list) != 3 {
		t.Fatalf("parseReporters = %v, %v, want 3 reporters", list, err)
	}
	return list
}

// TestUnhealthy parses reporters and judges them.
func TestUnhealthy(t *testing.T) {
	before := parsed(t, healthy, 1)
	if got := fmt.Sprint(before); got != "[fw fw_fatal tx of port 65535]" {
		t.Errorf("parseReporters = %s, want the reporters of the device and its port", got)
	}
	for what, tc := range map[string]struct {
		after []reporter
		ok    bool
	}{
		"no change":   {before, true},
		"one error":   {parsed(t, healthy, 2), false},
		"error state": {parsed(t, "error", 1), false},
		"missing":     {before[1:], false},
	} {
		if err := unhealthy(before, tc.after); (err == nil) != tc.ok {
			t.Errorf("unhealthy(%s) = %v, want ok %v", what, err, tc.ok)
		}
	}
	if list, err := parseReporters([]byte("no JSON"), "x"); err == nil {
		t.Errorf("parseReporters(no JSON) = %v, want an error", list)
	}
}
