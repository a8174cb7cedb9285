// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"fmt"
	"strings"
	"testing"

	"purerdma/verbs"
)

// TestString checks that the printed form of objects is readable, and contains none of the
// memory.
func TestString(t *testing.T) {
	rt := fakeRoute()
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	qp := fmt.Sprintf("QP %#x of rxe0", e.qp.Num())
	for _, tc := range []struct {
		what any
		want string
	}{
		{e.dev, "rxe0"},
		{e.qp, qp},
		{e.buf, fmt.Sprintf("65536 bytes of memory, lkey %#x, rkey %#x, of rxe0", e.buf.LKey(), e.buf.RKey())},
		{verbs.PortActive, "ACTIVE"},
		{verbs.PortState(9), "PortState(9)"},
		{verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: e.qp}, "QP_FATAL of " + qp},
		{verbs.AsyncEvent{Type: verbs.AsyncCQErr, CQ: e.cq}, "CQ_ERR of a CQ of rxe0"},
		{verbs.AsyncEvent{Type: verbs.AsyncPortErr, Port: 1, Lost: 2}, "PORT_ERR of port 1, after 2 that are lost"},
		{verbs.AsyncEvent{Type: verbs.AsyncDeviceFatal}, verbs.AsyncDeviceFatal.String()},
	} {
		if got := fmt.Sprintf("%v", tc.what); got != tc.want {
			t.Errorf("String of %T = %q, want %q", tc.what, got, tc.want)
		}
	}
	if got := fmt.Sprint(struct{ Device *verbs.Device }{}); !strings.Contains(got, "nil") {
		t.Errorf("a nil Device prints as %q, want nil in it", got)
	}
}
