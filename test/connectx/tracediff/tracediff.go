// SPDX-License-Identifier: Apache-2.0

// Package tracediff compares what two programs gave a software ConnectX to do, and what
// it did, by the traces that it wrote: the same program with libmlx5 and with
// provider/mlx5, say, each run as rdmavm -driver mlx5 -trace FILE.
//
// Of a trace it takes what belongs to QPs that sent something:
//
//   - the mailboxes by which the QP, its CQs and its SRQ were made;
//   - what may be done with the memory that it uses, and how much there is;
//   - its work requests, and the receives that messages took;
//   - the stores to its doorbell registers, with the doorbell record as it was then;
//   - how its CQs were armed;
//   - its completions.
//
// It leaves out what differs from run to run: numbers of objects and keys, addresses,
// which become offsets from the first address that was seen with their key, times. The
// order is kept among things of one kind; of things of different kinds it is the order of
// two processors, and of the device's own time. Beyond that [Excused] says what may
// differ, and why.
package tracediff

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Seen reads a trace and returns in words what devices saw of QPs that sent something and
// did for them, one QP after another in the order in which they sent first. services are
// the transport services that count, as "RC"; without any all do.
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

// Differences says where two lists differ, one line for each place, "" if nowhere.
func Differences(a, b []string) string {
	var out strings.Builder
	for len(a) > 0 || len(b) > 0 {
		// The lists of QPs may be of different lengths: compare kind with kind.
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

// less says whether a line is of an earlier QP, or of an earlier kind of the same QP.
func less(a, b string) bool {
	qa, ka := place(a)
	qb, kb := place(b)
	return qa < qb || qa == qb && ka < kb
}

// place returns the QP of a line, and the place of its kind among the kinds.
func place(line string) (qp, kind int) {
	return number(line), slices.Index(Kinds, kindOf(line))
}

func kindOf(line string) string {
	_, text, _ := strings.Cut(line, ": ")
	word, _, _ := strings.Cut(text, " ")
	return word
}

// Of returns the lines that are of some of the Kinds.
func Of(all []string, kinds ...string) (some []string) {
	for _, line := range all {
		if slices.Contains(kinds, kindOf(line)) {
			some = append(some, line)
		}
	}
	return some
}

// Halves parts what Seen returned into that of the first half of the QPs and that of the
// second, which are numbered alike then.
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

// number is that of the QP of a line.
func number(r string) (n int) {
	fmt.Sscanf(r, "QP %d:", &n)
	return n
}
