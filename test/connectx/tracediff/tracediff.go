// SPDX-License-Identifier: Apache-2.0

// Package tracediff compares the operations of two programs on a software ConnectX by its
// traces. An example is one program with libmlx5 and with provider/mlx5, each run with rdmavm
// -driver mlx5 -trace FILE.
//
// It uses the following parts of a trace, for each QP that has sent something:
//
//   - the mailboxes that created the QP, its CQs and its SRQ
//   - the rights and the length of its memory
//   - its work requests, and the receives that messages used
//   - the stores to its doorbell registers, with the current doorbell record
//   - the ways in which its CQs were armed
//   - its completions
//
// It ignores differences between runs, such as numbers of objects and keys, and times.
// Addresses become offsets from the first address with their key. The order of lines of one
// kind is kept. The order of lines of different kinds depends on the timing of two processors
// and the device, and is ignored. [Excused] lists further expected differences with their
// reasons.
package tracediff

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Seen reads a trace and describes the operations of the QPs that have sent something. The QPs
// are in the order of their first sends. services selects transport services such as "RC".
// Without services it selects all.
func Seen(trace io.Reader, services ...string) ([]string, error) {
	devices := make(map[string]*device)
	var senders []*queue
	s := bufio.NewScanner(trace)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		name, l, ok := parse(s.Text())
		if !ok {
			continue
		}
		d := devices[name]
		if d == nil {
			d = newDevice()
			devices[name] = d
		}
		q, err := d.take(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if q != nil && !q.sender && (len(services) == 0 || slices.Contains(services, q.service)) {
			q.sender = true
			senders = append(senders, q)
		}
	}
	var all []string
	for i, q := range senders {
		for _, w := range q.words() {
			all = append(all, fmt.Sprintf("QP %d: %s", i, w))
		}
	}
	return all, s.Err()
}

// Differences describes the differences of two lists, one line for each, or returns "".
func Differences(a, b []string) string {
	var out strings.Builder
	for len(a) > 0 || len(b) > 0 {
		// The lists of QPs may have different lengths, so compare kind with kind.
		var x, y string
		switch {
		case len(a) == 0 || len(b) > 0 && less(b[0], a[0]):
			x, y, b = "nothing", b[0], b[1:]
		case len(b) == 0 || less(a[0], b[0]):
			x, y, a = a[0], "nothing", a[1:]
		default:
			x, y, a, b = a[0], b[0], a[1:], b[1:]
		}
		if x != y {
			fmt.Fprintf(&out, "%s | %s\n", x, y)
		}
	}
	return out.String()
}

// less reports whether a line belongs to an earlier QP, or to an earlier kind of one QP.
func less(a, b string) bool {
	qa, ka := place(a)
	qb, kb := place(b)
	return qa < qb || qa == qb && ka < kb
}

// place returns the QP of a line, and the index of its kind.
func place(line string) (qp, kind int) {
	return number(line), slices.Index(Kinds, kindOf(line))
}

func kindOf(line string) string {
	_, text, _ := strings.Cut(line, ": ")
	word, _, _ := strings.Cut(text, " ")
	return word
}

// Select returns the lines of some of the Kinds.
func Select(all []string, kinds ...string) (some []string) {
	for _, line := range all {
		if slices.Contains(kinds, kindOf(line)) {
			some = append(some, line)
		}
	}
	return some
}

// Halves splits the result of Seen into the first half of the QPs and the second half. Both
// halves are numbered from 0.
func Halves(all []string) (first, second []string, err error) {
	queues := 0
	for _, r := range all {
		queues = max(queues, number(r)+1)
	}
	if queues == 0 || queues%2 != 0 {
		return nil, nil, fmt.Errorf("%d QPs have no two halves", queues)
	}
	for _, r := range all {
		_, text, _ := strings.Cut(r, ": ")
		if n := number(r); n < queues/2 {
			first = append(first, r)
		} else {
			second = append(second, fmt.Sprintf("QP %d: %s", n-queues/2, text))
		}
	}
	return first, second, nil
}

// number returns the number of a line's QP.
func number(r string) (n int) {
	fmt.Sscanf(r, "QP %d:", &n)
	return n
}
