// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestParseWake(t *testing.T) {
	out := strings.Repeat("900000\n", wakeFirst) + strings.Repeat("1500\n", wakeUps)
	got, err := parseWake(out)
	if err != nil || len(got) != wakeUps || got[0] != 1.5 || got[wakeUps-1] != 1.5 {
		t.Errorf("parseWake = %d times, %v, want %d times of 1.5", len(got), err, wakeUps)
	}
	for what, bad := range map[string]string{
		"nothing": "", "one less": strings.Replace(out, "1500\n", "", 1), "one more": out + "1500\n", "a word": strings.Replace(out, "1500", "many", 1),
		"a time before the post": strings.Replace(out, "1500", "-1500", 1), "a minute and more": strings.Replace(out, "1500", "60000000001", 1),
	} {
		if _, err := parseWake(bad); err == nil {
			t.Errorf("parseWake(%s) = nil error, want an error", what)
		}
	}
}

// TestWakeKinds checks that a run of each kind has the number of messages that parseWake requires.
func TestWakeKinds(t *testing.T) {
	for _, k := range wakeKinds {
		if k.asks*k.answers != wakeFirst+wakeUps {
			t.Errorf("messages of %s = %d, want %d", k.name, k.asks*k.answers, wakeFirst+wakeUps)
		}
	}
}
