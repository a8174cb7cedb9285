// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"fmt"
	"strings"
	"time"
)

// History holds the last events of a Queue, of a Receiver, or of a connection (cm.Conn.History), the
// oldest first. It is a copy, which the caller may change.
type History struct {
	Time    time.Time // when the copy was made
	Entries []HistoryEntry
}

// HistoryEntry is one event of a History.
type HistoryEntry struct {
	// Time is the time of the event, with a reading of the monotonic clock. If Exact is false, the event
	// happened at that time or later. Then it happened before the next exact entry of its Queue or
	// Receiver. Under load one entry in 16 is exact. Failures always are.
	Time  time.Time
	Exact bool
	// Event is the kind of the event, such as "post" or "complete".
	Event string
	// Object is the request, the message, the call or the event of the connection manager. Requests
	// and messages have numbers, which begin again at 0 after 65535.
	Object string
	// Status is the result, or another property of the event.
	Status string
}

// String returns a line for each entry, with its time before h.Time. A ">" marks a time that is not
// exact:
//
//	 -2.104115s  post      request 16  SEND, 64 bytes
//	>-2.104115s  post      request 17  SEND, 4096 bytes
//	 -0.000027s  complete  request 16  transport retry counter exceeded
func (h History) String() string {
	times, timeLen, eventLen, objectLen := make([]string, len(h.Entries)), 0, 0, 0
	for i := range h.Entries {
		e := &h.Entries[i]
		mark := ""
		if !e.Exact {
			mark = ">"
		}
		times[i] = fmt.Sprintf("%s%.6fs", mark, e.Time.Sub(h.Time).Seconds())
		timeLen, eventLen, objectLen = max(timeLen, len(times[i])), max(eventLen, len(e.Event)), max(objectLen, len(e.Object))
	}
	var b strings.Builder
	for i := range h.Entries {
		e := &h.Entries[i]
		line := fmt.Sprintf("%*s  %-*s  %-*s  %s", timeLen, times[i], eventLen, e.Event, objectLen, e.Object, e.Status)
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	return b.String()
}
