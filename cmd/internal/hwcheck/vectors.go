// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"purerdma/verbs"
)

// recordChecks record what a ConnectX does. The archive has their recordings.
var recordChecks = []Check{
	{ID: "vectors", Title: "a scenario of all operations, recorded", needs: needsConnectX, do: checkVectors},
	{ID: "data-in-completions", Title: "which messages the device puts into completions", needs: needsConnectX, do: checkScatterFormats},
	{
		ID: "no-data-in-completions", Title: "no data in completions with MLX5_SCATTER_TO_CQE=0", needs: needsConnectX, do: checkNoScatter,
		Env: map[string]string{"MLX5_SCATTER_TO_CQE": "0"},
	},
}

// vectorSizes are the sizes of the messages in recordings.
var vectorSizes = []int{0, 1, 31, 32, 33, 63, 64, 65, 300, 5000}

func checkVectors(t *trial) {
	t.record()
	types := []verbs.QPType{verbs.RC}
	if t.features.UC {
		types = append(types, verbs.UC)
	}
	for _, typ := range types {
		l := t.link(Config{Type: typ, Cap: verbs.QPCap{SendSGE: 2, Inline: 64}})
		for i, size := range vectorSizes {
			sendOne(l, i, size)
			sendInline(l, i, min(size, 64))
			if t.features.Immediate {
				writeImmediate(l, i, size)
			}
		}
		for i := range 2 * l.cfg.Cap.RecvWR { // the counters in completions run past the size of the queues
			sendOne(l, i, 8)
		}
		if typ == verbs.RC {
			l.connectedVectors()
		}
		t.must("move the QP to ERR", l.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	}
	// A failed request, the flush behind it, and receives that are flushed.
	l := t.link(Config{})
	for i := range 3 {
		t.must("post a receive", l.recv(uint64(i), []piece{{0, 8}}))
	}
	wr := l.write(piece{0, 8}, 0)
	wr.RKey ^= 0xffff00
	l.post(signaled(wr), signaled(l.write(piece{0, 8}, 0)))
	if wcs := l.sends(2); wcs[0].Status != verbs.WCRemAccessErr || wcs[1].Status != verbs.WCWRFlushErr {
		t.fail("WRITE with an unknown key, and a request behind it: %v and %v", wcs[0].Status, wcs[1].Status)
	}
	_, err := wait(t.ctx, l.recvCQ, 3)
	t.must("wait for flushed receives", err)
	r := t.recording()
	t.note("%d lists of sends, %d lists of receives, %d completions, %d of them invalid", r.count["send"], r.count["recv"], r.count["poll"], r.invalid)
	if r.lost > 0 || r.invalid > 0 || r.count["send"] == 0 || r.count["poll"] < r.count["send"] {
		t.fail("the recording has lost %d operations, and has %d invalid completions", r.lost, r.invalid)
	}
}

// sendInline sends inline data.
func sendInline(l *link, seed, size int) {
	l.farRecv(uint64(seed), piece{margin, size})
	l.store(0, guards(size+2*margin))
	l.send(verbs.SendWR{ID: uint64(seed), Opcode: verbs.OpSend, Flags: verbs.SendSolicited, InlineData: pattern(seed, size)})
	l.farReceived(1)
	l.arrived(fmt.Sprintf("inline SEND of %d bytes", size), seed, size)
}

// writeImmediate writes data with immediate data.
func writeImmediate(l *link, seed, size int) {
	l.farRecv(uint64(seed))
	l.store(0, guards(size+2*margin))
	fillPattern(l.mr.Bytes()[:size], seed)
	wr := l.write(piece{0, size}, margin)
	wr.Opcode, wr.ImmData = verbs.OpWriteImm, uint32(seed)
	l.send(wr)
	if wc := l.farReceived(1)[0]; wc.ImmData != uint32(seed) {
		l.t.fail("WRITE with immediate data %d: completion %+v", seed, wc)
	}
	l.arrived(fmt.Sprintf("WRITE with immediate of %d bytes", size), seed, size)
}

// connectedVectors executes the operations that need a reliable connection.
func (l *link) connectedVectors() {
	near := l.mr.Bytes()
	const to = 32 << 10
	for i, size := range vectorSizes {
		fillPattern(near[:size], i)
		clear(near[to:][:size])
		fenced := signaled(l.write(piece{0, size}, to))
		fenced.Flags |= verbs.SendFence
		// One list has one doorbell, and one request without a completion.
		l.post(l.write(piece{0, size}, 0), signaled(l.read(piece{to, size}, 0)), fenced)
		l.succeeded("list of requests", l.sends(2))
		l.same(fmt.Sprintf("READ of %d bytes", size), near[to:][:size], near[:size])
	}
	if l.t.features.Atomics {
		for _, op := range []verbs.SendOpcode{verbs.OpFetchAdd, verbs.OpCompareSwap} {
			l.send(verbs.SendWR{Opcode: op, CompareAdd: 1, Swap: 2, SGList: l.elements([]piece{{8, 8}}), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey})
		}
	}
}

// scatterConfig is the configuration of ends whose messages may be in completions.
var scatterConfig = Config{SignalAll: true, Cap: verbs.QPCap{SendSGE: 2}}

// shortMessages sends and reads messages of all sizes that may be in completions. The receives have several elements.
func (t *trial) shortMessages(cfg Config, op verbs.SendOpcode, elements int) {
	l := t.link(cfg)
	near := l.mr.Bytes()
	for size := range 67 {
		pieces := splits(margin, elements, 128)
		fillPattern(near[:size], size)
		l.farRecv(uint64(size), pieces...)
		l.send(verbs.SendWR{Opcode: op, SGList: l.elements([]piece{{0, size}})})
		l.farReceived(1)
		got := gathered(l.load(0, 4096), pieces)[:size]
		l.same(fmt.Sprintf("%s of %d bytes into %d elements", opName(op), size, elements), got, near[:size])
		l.store(0, pattern(size, size))
		clear(near[:size])
		l.send(l.read(piece{0, size}, 0))
		l.same(fmt.Sprintf("READ of %d bytes", size), near[:size], pattern(size, size))
	}
	for _, op := range []verbs.SendOpcode{verbs.OpFetchAdd, verbs.OpCompareSwap} {
		if t.features.Atomics {
			l.send(verbs.SendWR{Opcode: op, CompareAdd: 1, SGList: l.elements([]piece{{8, 8}}), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey})
		}
	}
}

func checkScatterFormats(t *trial) {
	t.record()
	shared, some, wide := scatterConfig, scatterConfig, scatterConfig
	shared.SRQ = 16
	some.SignalAll = false
	wide.Completions.EntrySize = 128
	wideShared := wide
	wideShared.SRQ = 16
	four := scatterConfig
	four.Cap.RecvSGE = min(4, t.attr.MaxSGE)
	seen := 0
	for _, c := range []struct {
		what     string
		cfg      Config
		op       verbs.SendOpcode
		elements int
	}{
		{"SEND", scatterConfig, verbs.OpSend, 1}, {"SEND with immediate", scatterConfig, verbs.OpSendImm, 1}, {"2 elements", scatterConfig, verbs.OpSend, 2},
		{"4 elements", four, verbs.OpSend, four.Cap.RecvSGE}, {"room for 4 elements", four, verbs.OpSend, 1}, {"shared receives", shared, verbs.OpSend, 1}, {"some requests signaled", some, verbs.OpSend, 1},
		{"completions of 128 bytes", wide, verbs.OpSend, 1}, {"shared receives, completions of 128 bytes", wideShared, verbs.OpSend, 1},
	} {
		if c.cfg.Completions.EntrySize > 0 && !t.hasOption(c.what, c.cfg.Completions) {
			continue
		}
		t.shortMessages(c.cfg, c.op, c.elements)
		r := t.recording()
		if r.lost > 0 {
			t.fail("the recording has lost %d operations", r.lost)
		}
		t.noteFormats(c.what, r.completions[seen:])
		seen = len(r.completions)
	}
	if needsSendInvalidate(t) == "" {
		t.shortInvalidations()
		t.noteFormats("SEND with invalidate", t.recording().completions[seen:])
	}
}

// shortInvalidations has the far end invalidate windows of the near end by messages that may be in completions.
func (t *trial) shortInvalidations() {
	const to = 8192
	l := t.link(scatterConfig)
	for i, size := range vectorSizes {
		w := l.bind(verbs.MWType2)
		l.store(0, pattern(i, size))
		got := l.mr.Bytes()[to:][:size+margin]
		want := guards(len(got))
		copy(got, want)
		fillPattern(want[:size], i)
		t.must("post a receive", l.recv(uint64(i), []piece{{to, size}}))
		l.farPost(PlainWR{Opcode: verbs.OpSendInv, Flags: verbs.SendSignaled, Invalidate: w.mw.RKey()}, piece{0, size})
		l.succeeded("SEND with invalidate of the far end", l.farWait(true, 1))
		if wc := l.received(1)[0]; int(wc.ByteLen) != size || t.features.ReportsInv && wc.InvalidatedRKey != w.mw.RKey() {
			t.fail("SEND with invalidate of %d bytes: completion %+v, want the key %#x", size, wc, w.mw.RKey())
		}
		l.same(fmt.Sprintf("SEND with invalidate of %d bytes", size), got, want)
	}
}

// noteFormats adds the places of the data of completions to the evidence.
func (t *trial) noteFormats(what string, completions []recordedCompletion) {
	for _, line := range formats(completions) {
		t.note("%s: %s", what, line)
	}
}

func checkNoScatter(t *trial) {
	t.record()
	t.shortMessages(scatterConfig, verbs.OpSend, 1)
	for _, c := range t.recording().completions {
		if c.inside {
			t.fail("a completion of opcode %d has %d bytes of data", c.opcode, c.size)
		}
	}
}

// recording holds the parts of a recording that checks need.
type recording struct {
	count       map[string]int // lines by type
	lost        int            // operations
	invalid     int            // completions
	completions []recordedCompletion
}

// recordedCompletion is a successful completion.
type recordedCompletion struct {
	opcode verbs.WCOpcode
	size   uint32
	inside bool // the data is in the completion
	queue  recordedQueue
	// counter is the number of the request's first block, or of the receive.
	counter uint16
}

// recordedQueue is a queue of a recorded QP.
type recordedQueue struct {
	qp      string
	receive bool
}

// recording returns the recording of the near end, and of a far end in this process.
func (t *trial) recording() *recording {
	var b bytes.Buffer
	_, err := t.target.recorder.Load().WriteTo(&b)
	t.must("write the recording", err)
	r, err := parseRecording(b.String())
	t.must("read the recording", err)
	return r
}

// parseRecording parses a recording, which README.md of test/oracle describes.
func parseRecording(text string) (*recording, error) {
	r := &recording{count: map[string]int{}}
	for line := range strings.Lines(text) {
		var l struct {
			T    string
			Lost int
			N    int
			CQEs []struct{ Of, Bytes string }
			WCs  []struct {
				Status  verbs.WCStatus
				Opcode  verbs.WCOpcode
				ByteLen uint32 `json:"byte_len"`
			}
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(line[:min(len(line), 80)]), err)
		}
		r.count[l.T]++
		r.lost += l.Lost
		if l.T != "poll" {
			continue
		}
		if l.N == 0 {
			r.invalid++
		}
		if len(l.WCs) != 1 || len(l.CQEs) != 1 || l.WCs[0].Status != verbs.WCSuccess {
			continue
		}
		cqe, err := hex.DecodeString(l.CQEs[0].Bytes)
		if err != nil || len(cqe) < 64 {
			return nil, fmt.Errorf("completion %q is no completion of a ConnectX", l.CQEs[0].Bytes)
		}
		// Bits 2 and 3 of the last byte are the format. 0 is without data, 3 is compressed.
		format := cqe[len(cqe)-1] >> 2 & 3
		// The next 4 bits are the opcode, 0 of a request. The counter is 3 bytes before it.
		last := len(cqe) - 1
		r.completions = append(r.completions, recordedCompletion{
			l.WCs[0].Opcode, l.WCs[0].ByteLen, format == 1 || format == 2,
			recordedQueue{l.CQEs[0].Of, cqe[last]>>4 != 0}, binary.BigEndian.Uint16(cqe[last-3:]),
		})
	}
	return r, nil
}

// wrapped checks that the counters of each queue increase by 1, and returns the number of queues that pass from 65535 to 0. Each request
// must have one block and a completion.
func (r *recording) wrapped() (n int, err error) {
	before := map[recordedQueue]uint16{}
	for _, c := range r.completions {
		last, ok := before[c.queue]
		if ok && c.counter != last+1 {
			return 0, fmt.Errorf("%s, receive %v: counter %d after %d", c.queue.qp, c.queue.receive, c.counter, last)
		}
		if ok && c.counter == 0 {
			n++
		}
		before[c.queue] = c.counter
	}
	return n, nil
}

// opcodeNames has the names of the operations whose data can be in a completion.
var opcodeNames = map[verbs.WCOpcode]string{
	verbs.WCRecv: "receives", verbs.WCRead: "READs", verbs.WCFetchAdd: "fetch and add", verbs.WCCompareSwap: "compare and swap",
}

// formats describes the sizes whose data is in completions, by operation.
func formats(completions []recordedCompletion) []string {
	var lines []string
	for op, name := range opcodeNames {
		sizes := map[bool][]uint32{}
		for _, c := range completions {
			if c.opcode == op {
				sizes[c.inside] = append(sizes[c.inside], c.size)
			}
		}
		for inside, list := range sizes {
			where := "in memory"
			if inside {
				where = "in the completion"
			}
			lines = append(lines, fmt.Sprintf("%s %s: %s bytes", name, where, ranges(list)))
		}
	}
	slices.Sort(lines)
	return lines
}

// ranges returns a list of numbers as ranges.
func ranges(list []uint32) string {
	slices.Sort(list)
	list = slices.Compact(list)
	var parts []string
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n] == list[n-1]+1 {
			n++
		}
		part := fmt.Sprint(list[0])
		if n > 1 {
			part += fmt.Sprintf("-%d", list[n-1])
		}
		parts, list = append(parts, part), list[n:]
	}
	return strings.Join(parts, ", ")
}
