// SPDX-License-Identifier: Apache-2.0

// Package tracediff compares what two programs gave a software ConnectX to do, by the
// traces that it wrote: the same program with libmlx5 and with provider/mlx5, say,
// each run as rdmavm -driver mlx5 -trace FILE.
//
// Of a trace it takes the work requests, and leaves out what differs from run to run:
// numbers of queues and keys, addresses, which become offsets from the first address
// that was seen with their key, and places in the ring.
package tracediff

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"purerdma/test/connectx/prm"
)

// line is one of a request, as connectx.RequestRecord writes it. There may be
// something before it, such as a time.
var line = regexp.MustCompile(`(\S+) request 0x([0-9a-f]+) of (\S+) QP (0x[0-9a-f]+): ([0-9a-f]+)$`)

// Requests reads a trace and returns its work requests in words, in their order, those
// of one QP after those of the QP that was heard of before it, each once, however often
// it was sent. services are the
// transport services that count, as "RC"; without any all do.
func Requests(trace io.Reader, services ...string) ([]string, error) {
	var queues []*queue
	byName := make(map[string]*queue)
	s := bufio.NewScanner(trace)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		m := line.FindStringSubmatch(s.Text())
		if m == nil || len(services) > 0 && !contains(services, m[3]) {
			continue
		}
		wqe, err := hex.DecodeString(m[5])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(wqe) >= prm.Octoword && prm.Ctrl.Opcode.Get(wqe) == prm.WQENop {
			continue // a driver finds out by them how it can post
		}
		name := m[1] + " " + m[4]
		q := byName[name]
		if q == nil {
			q = &queue{service: m[3], keys: make(map[uint32]key)}
			byName[name] = q
			queues = append(queues, q)
		}
		index, err := strconv.ParseUint(m[2], 16, 16)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(q.requests) > 0 && int16(uint16(index)-q.last) <= 0 {
			continue // it is sent again, because the peer was not ready
		}
		q.last = uint16(index)
		text, err := q.words(wqe)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		q.requests = append(q.requests, text)
	}
	var all []string
	for i, q := range queues {
		for _, r := range q.requests {
			all = append(all, fmt.Sprintf("QP %d: %s", i, r))
		}
	}
	return all, s.Err()
}

// Differences says where two lists of requests differ, one line for each place, "" if
// nowhere.
func Differences(a, b []string) string {
	var out strings.Builder
	for i := range max(len(a), len(b)) {
		x, y := "nothing", "nothing"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			fmt.Fprintf(&out, "request %d: %s | %s\n", i, x, y)
		}
	}
	return out.String()
}

// Halves parts what Requests returned into that of the first half of the QPs and that
// of the second, which are numbered alike then.
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

// number is that of the QP of a request.
func number(r string) (n int) {
	fmt.Sscanf(r, "QP %d:", &n)
	return n
}

func contains(list []string, one string) bool {
	for _, s := range list {
		if s == one {
			return true
		}
	}
	return false
}

// queue is a QP of a trace.
type queue struct {
	service  string
	requests []string
	last     uint16 // index
	keys     map[uint32]key
}

// key is one that was seen: in the order of their appearance, and where.
type key struct {
	number int
	first  uint64
}

// place is an address in words.
func (q *queue) place(k uint32, addr uint64) string {
	e, ok := q.keys[k]
	if !ok {
		e = key{len(q.keys), addr}
		q.keys[k] = e
	}
	return fmt.Sprintf("key %d%+d", e.number, int64(addr-e.first))
}

// names are the operations.
var names = map[uint64]string{
	prm.WQENop: "NOP", prm.WQESendInv: "SEND_INV", prm.WQEWrite: "WRITE", prm.WQEWriteImm: "WRITE_IMM", prm.WQESend: "SEND",
	prm.WQESendImm: "SEND_IMM", prm.WQERead: "READ", prm.WQECompare: "COMPARE", prm.WQEFetchAdd: "FETCH_ADD", prm.WQEUMR: "UMR",
}

// words says what a work request asks for.
func (q *queue) words(w []byte) (string, error) {
	if len(w) < prm.Octoword || uint64(len(w)) != prm.Ctrl.DS.Get(w)*prm.Octoword {
		return "", fmt.Errorf("a request of %d bytes", len(w))
	}
	op := prm.Ctrl.Opcode.Get(w)
	name, ok := names[op]
	if !ok {
		name = fmt.Sprintf("operation %#x", op)
	}
	text := fmt.Sprintf("%s %s fence %d completion %d solicited %d", q.service, name, prm.Ctrl.Fence.Get(w), prm.Ctrl.Completion.Get(w), prm.Ctrl.Solicited.Get(w))
	rest := w[prm.Octoword:]
	take := func(n int) []byte {
		seg := make([]byte, n)
		rest = rest[copy(seg, rest):]
		return seg
	}
	switch op {
	case prm.WQESendImm, prm.WQEWriteImm:
		text += fmt.Sprintf(" imm %#x", prm.Ctrl.Imm.Get(w))
	case prm.WQESendInv:
		text += " inv " + q.place(uint32(prm.Ctrl.Imm.Get(w)), 0)
	case prm.WQENop, prm.WQEUMR:
		return fmt.Sprintf("%s %d bytes", text, len(w)), nil
	}
	switch q.service {
	case "UD", "QP1", "DCI":
		av := take(prm.AVLen)
		text += fmt.Sprintf(" to %x", prm.AV.RGID.Of(av))
	case "XRC":
		take(prm.Octoword)
	}
	switch op {
	case prm.WQEWrite, prm.WQEWriteImm, prm.WQERead, prm.WQECompare, prm.WQEFetchAdd:
		seg := take(prm.Octoword)
		text += " remote " + q.place(uint32(prm.Raddr.RKey.Get(seg)), prm.Raddr.Address.Get(seg))
	}
	switch op {
	case prm.WQECompare:
		seg := take(prm.Octoword)
		text += fmt.Sprintf(" %#x for %#x", prm.AtomicSeg.SwapAdd.Get(seg), prm.AtomicSeg.Compare.Get(seg))
	case prm.WQEFetchAdd:
		text += fmt.Sprintf(" add %#x", prm.AtomicSeg.SwapAdd.Get(take(prm.Octoword)))
	}
	for len(rest) >= prm.Octoword {
		n := int(prm.DataSeg.ByteCount.Get(rest))
		if prm.DataSeg.Inline.Is(rest) {
			text += fmt.Sprintf(" inline %x", rest[4:min(4+n, len(rest))])
			rest = rest[min(len(rest), (4+n+prm.Octoword-1)&^(prm.Octoword-1)):]
			continue
		}
		seg := take(prm.Octoword)
		text += fmt.Sprintf(" %d bytes of %s", n, q.place(uint32(prm.DataSeg.LKey.Get(seg)), prm.DataSeg.Address.Get(seg)))
	}
	return text, nil
}
