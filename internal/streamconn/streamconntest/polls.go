// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// PollsWhileWaiting checks that a waiting Read polls the CQ itself. A goroutine of the library polls at first, and
// stops after it has taken a byte for a Read. It polls again if the next Read comes late.
func PollsWhileWaiting(t *testing.T, c, s Conn) {
	var bytes atomic.Int32
	go func() {
		for b := make([]byte, 1); ; bytes.Add(1) {
			if _, err := s.Read(b); err != nil {
				return
			}
		}
	}()
	const most = 1000
	for sent := int32(0); ; {
		switch stack := stackWith("streamconn.(*half).sleep("); {
		case strings.Contains(stack, "verbs.(*CQ).lead("):
			return
		case stack == "" || bytes.Load() < sent:
			runtime.Gosched() // Read does not wait yet
		case sent == most:
			t.Fatalf("no Read of %d bytes polls the CQ. It waits here:\n%s", most, stack)
		default:
			if _, err := c.Write([]byte{1}); err != nil {
				t.Fatalf("c.Write: %v", err)
			}
			sent++
		}
	}
}

// stackWith returns the stack of a goroutine that is in a function, "" if there is none.
func stackWith(function string) string {
	b := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
		if strings.Contains(stack, function) {
			return stack
		}
	}
	return ""
}
