// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"fmt"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// TestLog records requests, completions and messages, with failures, and compares the History.
func TestLog(t *testing.T) {
	l := inflight.NewLog(newCompletionsRig(t, time.Minute, func() {}).cq)
	if n := len(l.History().Entries); n != 0 {
		t.Errorf("len(History().Entries) of a new Log = %d, want 0", n)
	}
	send := verbs.SendWR{Opcode: verbs.OpSend, InlineData: make([]byte, 7)}
	write := verbs.SendWR{Opcode: verbs.OpWrite, SGList: []verbs.SGE{{Length: 100}, {Length: 20}}}
	l.Posted([]verbs.SendWR{send, write}, 2, nil)
	l.Completed(&verbs.WC{})
	l.Received(&verbs.WC{ByteLen: 5})
	l.Received(&verbs.WC{ByteLen: 6, Flags: verbs.WCWithImm})
	l.Posted([]verbs.SendWR{send, write}, 1, verbs.ErrFull)
	l.Completed(&verbs.WC{Status: verbs.WCRetryExcErr, VendorErr: 0x81})
	l.Posted([]verbs.SendWR{send}, 1, nil)
	l.Completed(&verbs.WC{Status: verbs.WCWRFlushErr, VendorErr: 0xf5})
	l.Completed(&verbs.WC{Status: verbs.WCWRFlushErr, VendorErr: 0xf5})
	l.Received(&verbs.WC{Status: verbs.WCLocProtErr})
	l.Received(&verbs.WC{Status: verbs.WCWRFlushErr})
	// Entries without a time of their own keep the place among the requests, before the messages of that time.
	var requests, messages []string
	for _, e := range l.History().Entries {
		line := fmt.Sprintf("%s, %s, %s", e.Event, e.Object, e.Status)
		if e.Event == "receive" {
			messages = append(messages, line)
		} else {
			requests = append(requests, line)
		}
	}
	compare := func(what string, got []string, want ...string) {
		t.Helper()
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s = %q, want %q", what, got, want)
		}
	}
	compare("requests", requests, "post, request 0, SEND, 7 bytes", "post, request 1, WRITE, 120 bytes", "complete, request 0, success",
		"post, request 2, SEND, 7 bytes", "post, request 3, not posted", "complete, request 1, transport retry counter exceeded (vendor syndrome 0x81)",
		"post, request 3, SEND, 7 bytes", "complete, requests 2 to 3, work request flushed")
	compare("messages", messages, "receive, message 0, 5 bytes", "receive, message 1, 6 bytes, immediate data", "receive, message, local protection error")
}

// TestLogWraps checks that a Log keeps the last requests, and allocates nothing then.
func TestLogWraps(t *testing.T) {
	l := inflight.NewLog(newCompletionsRig(t, time.Minute, func() {}).cq)
	wrs := []verbs.SendWR{{Opcode: verbs.OpSend}}
	wc := new(verbs.WC)
	step := func() {
		l.Posted(wrs, 1, nil)
		l.Completed(wc)
		l.Received(wc)
	}
	for range 40 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("allocations of a request = %v, want 0", n)
	}
	h := l.History()
	if n := len(h.Entries); n != 40 {
		t.Fatalf("len(History().Entries) = %d, want 32 of requests and 8 of messages", n)
	}
	objects := map[string]bool{}
	for _, e := range h.Entries {
		objects[e.Object] = true
	}
	for _, want := range []string{"request 126", "request 140", "message 134", "message 140"} {
		if !objects[want] {
			t.Errorf("History() =\n%v, want %s", h, want)
		}
	}
}
