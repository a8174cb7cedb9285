// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestEventErrDoc compares the error types in the comment of Event.Err with the errors of events.
func TestEventErrDoc(t *testing.T) {
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	documented := documentedErrs(t)
	for typ := range EventType(numEvents) {
		got := map[string]bool{}
		for _, status := range []int{0, 1, SIDRNoService, -1, -int(syscall.ETIMEDOUT), -int(syscall.ECONNREFUSED)} {
			for _, cause := range []error{nil, errors.New("failure in the library")} {
				if cause != nil && typ != EventAddrError && typ != EventConnectError {
					continue // the library makes only these two of its own failures
				}
				ev := &Event{Type: typ, ID: id, Status: status, cause: cause, Multicast: &Multicast{}}
				if err := ev.Err(); err != nil {
					got[causeOf(t, err, cause)] = true
				}
			}
		}
		var list []string
		for name := range got {
			list = append(list, name)
		}
		slices.Sort(list)
		if want := documented["Event"+goName(typ)]; !slices.Equal(list, want) {
			t.Errorf("Err of %v: errors %q, its comment has %q", typ, list, want)
		}
	}
	ev := &Event{Type: EventConnectError, ID: id, Status: -int(syscall.ENXIO)}
	if got := causeOf(t, ev.Err(), nil); got != "*verbs.DeviceRemovedError" {
		t.Errorf("Err with ENXIO = %s, want *verbs.DeviceRemovedError", got)
	}
}

// opening stands for the error of opening the device.
const opening = "opening the device"

// causeOf returns the type of the cause in an *OpError.
func causeOf(t *testing.T, err, cause error) string {
	t.Helper()
	oe, ok := err.(*OpError)
	if !ok {
		t.Fatalf("%T, want *OpError", err)
	}
	err = oe.Err
	if h, ok := err.(*hintedError); ok {
		err = errors.Unwrap(h)
	}
	if cause != nil && err == cause {
		return opening
	}
	return strings.Replace(fmt.Sprintf("%T", err), "*cm.", "*", 1)
}

// goName returns the part of a constant's name after Event.
func goName(typ EventType) string {
	var name strings.Builder
	for word := range strings.SplitSeq(strings.TrimPrefix(typ.String(), "RDMA_CM_EVENT_"), "_") {
		switch word {
		case "ADDRINFO":
			word = "AddrInfo"
		default:
			word = word[:1] + strings.ToLower(word[1:])
		}
		name.WriteString(word)
	}
	return name.String()
}

// documentedErrs returns the sorted error types by the names of events in the list in the comment of
// Event.Err.
func documentedErrs(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatalf("parser.ParseFile: %v", err)
	}
	var doc string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Err" {
			doc = f.Doc.Text()
		}
	}
	errs := map[string][]string{}
	for _, item := range strings.Split(doc, "\n  - ")[1:] {
		item, _, _ = strings.Cut(item, "\n\n")
		events, types, _ := strings.Cut(item, ":")
		list := regexp.MustCompile(`\*[\w.]*Error`).FindAllString(types, -1)
		if strings.Contains(types, opening) {
			list = append(list, opening)
		}
		for _, e := range regexp.MustCompile(`Event\w+`).FindAllString(events, -1) {
			errs[e] = list
		}
	}
	if len(errs) < 5 {
		t.Fatalf("event.go: the comment of Err lists errors of %d events", len(errs))
	}
	return errs
}
