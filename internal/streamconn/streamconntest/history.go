// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"errors"
	"io"
	"regexp"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/verbs"
)

// recorded is a connection with a History.
type recorded interface {
	Close() error
	History() inflight.History
	QP() *verbs.QP
}

// History transfers data between two streams in both directions, and calls BrokenHistory.
func History(t *testing.T, c, s interface {
	Conn
	recorded
}, transfers ...string) {
	for _, pair := range [][2]Conn{{c, s}, {s, c}} {
		from, to := pair[0], pair[1]
		from.SetDeadline(time.Now().Add(Limit))
		to.SetDeadline(time.Now().Add(Limit))
		if _, err := from.Write(make([]byte, 100)); err != nil {
			t.Fatalf("Write: %v", err)
		}
		if _, err := io.ReadFull(to, make([]byte, 100)); err != nil {
			t.Fatalf("Read: %v", err)
		}
	}
	BrokenHistory(t, c, func() error {
		_, err := c.Read(make([]byte, 1))
		return err
	}, transfers...)
}

// BrokenHistory moves the QP of a connection to the error state, calls receive, and closes the connection. It
// checks the History of the connection before and after each step, and the History of receive's error. transfers
// has the regular expressions of the requests and messages that the History has, in their order.
func BrokenHistory(t *testing.T, c recorded, receive func() error, transfers ...string) {
	want := append([]string{"event RDMA_CM_EVENT_ESTABLISHED state established"}, transfers...)
	wantHistory(t, "History()", c.History(), want...)
	if err := c.QP().Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); err != nil {
		t.Fatalf("Modify: %v", err)
	}
	err := receive()
	broken, ok := errors.AsType[*cm.BrokenError](err)
	if !ok {
		t.Fatalf("error of a broken connection = %v, want a *cm.BrokenError", err)
	}
	wantHistory(t, "BrokenError.History", broken.History, want...)
	want = append(want, "break flush state established")
	wantHistory(t, "History() of a broken connection", c.History(), want...)
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wantHistory(t, "History() after Close", c.History(), append(want, "call destroy ")...)
}

// wantHistory checks that a History contains entries in this order. Each of want is a regular expression for the
// start of the event, the object and the status of an entry.
func wantHistory(t *testing.T, name string, h inflight.History, want ...string) {
	t.Helper()
	rest := h.Entries
	for _, w := range want {
		entry := regexp.MustCompile("^(" + w + ")")
		for {
			if len(rest) == 0 {
				t.Errorf("%s =\n%vwant the entry %q", name, h, w)
				return
			}
			e := rest[0]
			rest = rest[1:]
			if entry.MatchString(e.Event + " " + e.Object + " " + e.Status) {
				break
			}
		}
	}
}
