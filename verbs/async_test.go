// SPDX-License-Identifier: Apache-2.0

package verbs

import "testing"

// TestAsyncOverflow lets unread events accumulate beyond the documented bound.
func TestAsyncOverflow(t *testing.T) {
	const bound = 1024
	q := &AsyncEvents{ready: make(chan struct{}, 1), done: make(chan struct{})}
	e := events{queues: map[*AsyncEvents]struct{}{q: {}}}
	for i := range bound + 300 {
		e.hand(AsyncEvent{Type: AsyncGIDChange, Port: uint8(i)})
	}
	first := true
	for i := 300; i < bound+300; i++ {
		ev, ok, err := q.take()
		want := AsyncEvent{Type: AsyncGIDChange, Port: uint8(i)}
		if first {
			want.Lost, first = 300, false
		}
		if ev != want || !ok || err != nil {
			t.Fatalf("event %d: AsyncEvents.take() = %v, %v, %v, want %v, true, nil", i, ev, ok, err, want)
		}
	}
	if ev, ok, err := q.take(); ok || err != nil {
		t.Errorf("take after the last event = %+v, %v, want none, nil", ev, err)
	}
}
