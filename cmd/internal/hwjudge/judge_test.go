// SPDX-License-Identifier: Apache-2.0

package hwjudge

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/internal/hwreport"
	"purerdma/test/oracle/vector"
)

const (
	root       = "../../.."
	recordFile = root + "/provider/mlx5/testdata/recordings/model.jsonl"
	name       = "vectors/recording.jsonl"
)

// sample returns a recording of the software ConnectX.
func sample(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(recordFile)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	return b
}

// card returns a report about a card with results, "ID STATUS reason".
func card(results ...string) *hwreport.Report {
	r := &hwreport.Report{Machine: hwreport.Machine{Kind: hwreport.Card, Driver: "mlx5", Device: "mlx5_0"}}
	for _, text := range results {
		f := strings.SplitN(text+" ", " ", 3)
		r.Results = append(r.Results, hwreport.Result{ID: f[0], Status: hwreport.Status(f[1]), Reason: strings.TrimSpace(f[2])})
	}
	return r
}

// of returns the opinion about a belief.
func (j *Judgment) of(t *testing.T, id string) opinion {
	t.Helper()
	for _, o := range j.beliefs {
		if o.id == id {
			return o
		}
	}
	t.Fatalf("Judge has no belief %s", id)
	return opinion{}
}

// TestOutcomes checks the outcomes of beliefs by the results of checks.
func TestOutcomes(t *testing.T) {
	stray := "destroy UNKNOWN the device wrote 1 " + hwreport.UnexplainedCompletions + ", which were skipped"
	for what, tc := range map[string]struct {
		report *hwreport.Report
		belief string
		want   outcome
	}{
		"passed":           {card("fence PASS"), "fence", confirmed},
		"failed":           {card("fence FAIL wrong"), "fence", contradicted},
		"skipped":          {card("fence SKIP none"), "fence", undecided},
		"not run":          {card(), "fence", undecided},
		"one of three":     {card("doorbells PASS", "doorbells-plain PASS"), "doorbells", undecided},
		"one failed":       {card("doorbells PASS", "storm FAIL wrong"), "doorbells", contradicted},
		"stray completion": {card(stray, "churn PASS"), "after-destroy", contradicted},
		"other unknown":    {card("destroy UNKNOWN no memory", "churn PASS"), "after-destroy", undecided},
	} {
		if o := Judge(tc.report, nil).of(t, tc.belief); o.outcome != tc.want {
			t.Errorf("Judge(%s).%s = %s %q, want %s", what, tc.belief, o.outcome, o.evidence, tc.want)
		}
	}
	for kind, driver := range map[hwreport.Kind]string{hwreport.Model: "mlx5", hwreport.Software: "rxe"} {
		r := card("fence PASS")
		r.Machine.Kind, r.Machine.Driver = kind, driver
		if o := Judge(r, nil).of(t, "fence"); o.outcome != undecided {
			t.Errorf("Judge(%s).fence = %s %q, want %s", kind, o.outcome, o.evidence, undecided)
		}
	}
}

// TestBeliefs checks that the files that rely on beliefs exist.
func TestBeliefs(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range beliefs {
		if seen[b.id] {
			t.Errorf("beliefs has two of the ID %s", b.id)
		}
		seen[b.id] = true
		for file := range strings.SplitSeq(b.where, ", ") {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("belief %s: os.Stat: %v", b.id, err)
			}
		}
	}
}

// TestRecording judges a recording of the software ConnectX, which agrees with all beliefs, and reads its vectors.
func TestRecording(t *testing.T) {
	j := Judge(card(), map[string][]byte{name: sample(t), "log/fence.txt": []byte("text")})
	if len(j.recordings) != 1 || len(j.refused) != 0 || j.Failed() {
		t.Fatalf("Judge = %s, want 1 recording without a contradiction", j)
	}
	if c := j.recordings[0].counters(); c.recvs.good == 0 || c.sends.good == 0 {
		t.Errorf("counters = %d receives and %d requests, want some of both", c.recvs.good, c.sends.good)
	}
	dir := t.TempDir()
	names, err := j.WriteVectors(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("WriteVectors = %q, %v, want 1 file", names, err)
	}
	got, err := vector.ReadFile(filepath.Join(dir, names[0]))
	if err != nil {
		t.Fatalf("vector.ReadFile: %v", err)
	}
	want, err := vector.ReadFile(recordFile)
	if err != nil {
		t.Fatalf("vector.ReadFile: %v", err)
	}
	if g, w := len(got.Sessions[0].Records), len(want.Sessions[0].Records); g != w {
		t.Errorf("WriteVectors wrote %d records, want %d", g, w)
	}
	if names, err := j.WriteVectors(dir); err == nil {
		t.Errorf("WriteVectors into the same directory = %q, want an error", names)
	}
}

// changed returns the recording with other entries of CQs.
func changed(t *testing.T, change func(e cqe) bool) []byte {
	t.Helper()
	var out bytes.Buffer
	done := false
	for text := range bytes.Lines(sample(t)) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		if l.T == "poll" && !done {
			before := hex.EncodeToString(l.CQEs[0].Bytes)
			done = change(l.cqe())
			text = bytes.Replace(text, []byte(before), []byte(hex.EncodeToString(l.CQEs[0].Bytes)), 1)
		}
		out.Write(text)
	}
	if !done {
		t.Fatalf("the recording has no completion to change")
	}
	return out.Bytes()
}

// TestContradictions changes completions of a recording so that each contradicts a belief.
func TestContradictions(t *testing.T) {
	counter := func(e cqe, n uint16) { binary.BigEndian.PutUint16(e[60:], n) }
	for what, tc := range map[string]struct {
		belief, want string
		change       func(e cqe) bool
	}{
		"request": {"request-counters", "names no request", func(e cqe) bool {
			if !e.ofRequest() || e.failed() {
				return false
			}
			counter(e, 60000)
			return true
		}},
		"receive": {"receive-counters", "names no request", func(e cqe) bool {
			if !e.ofReceive() || e.failed() {
				return false
			}
			counter(e, 60000)
			return true
		}},
		"flushed": {"failure-counters", "names no request", func(e cqe) bool {
			if !e.failed() {
				return false
			}
			counter(e, 60000)
			return true
		}},
		"data": {"data-in-completions", "33 bytes of data", func(e cqe) bool {
			if !e.ofReceive() || e.failed() {
				return false
			}
			e[63] |= 1 << 2
			binary.BigEndian.PutUint32(e[44:], 33)
			return true
		}},
		"WRITE with immediate": {"data-in-completions", "WRITE with immediate", func(e cqe) bool {
			if !e.ofReceive() || e.failed() {
				return false
			}
			e[63] = respWriteImm<<4 | 1<<2
			binary.BigEndian.PutUint32(e[44:], 3)
			return true
		}},
	} {
		j := Judge(card(), map[string][]byte{name: changed(t, tc.change)})
		o := j.of(t, tc.belief)
		if o.outcome != contradicted || !j.Failed() || !strings.Contains(fmt.Sprint(o.evidence), tc.want) {
			t.Errorf("Judge(%s).%s = %s %q, want %s with %q", what, tc.belief, o.outcome, o.evidence, contradicted, tc.want)
		}
	}
}

// TestPositions compares counters with posted requests.
func TestPositions(t *testing.T) {
	const size = 8
	for what, tc := range map[string]struct {
		posted   []uint16
		lost     bool
		counters []uint16
		want     string // "" for none
		extra    int
		fresh    int    // completions after a reset
		kept     string // contradiction of the belief about resets, "" for none
	}{
		"in order":            {posted: []uint16{0, 1, 2}, counters: []uint16{0, 1, 2}},
		"past the size":       {posted: []uint16{7, 8, 9}, counters: []uint16{7, 8, 9}, extra: 2},
		"past 2^16":           {posted: []uint16{65535, 0}, counters: []uint16{65535, 0}, extra: 1},
		"modulo the size":     {posted: []uint16{8, 9}, counters: []uint16{0}, want: "modulo the size"},
		"out of order":        {posted: []uint16{0, 1}, counters: []uint16{1}, want: "after that of"},
		"twice":               {posted: []uint16{0}, counters: []uint16{0, 0}, want: "all have completed"},
		"before a recording":  {posted: []uint16{5}, lost: true, counters: []uint16{3, 4, 5}},
		"unknown after known": {posted: []uint16{5, 6}, lost: true, counters: []uint16{5, 4}, want: "names no request"},
		"after a reset":       {posted: []uint16{5, 0, 1}, counters: []uint16{0, 1}, fresh: 2},
		"kept after a reset":  {posted: []uint16{5, 0, 1}, counters: []uint16{6, 7}, kept: "goes on"},
		"wrong after a reset": {posted: []uint16{5, 0}, counters: []uint16{9}, want: "names no request"},
	} {
		var fresh, f findings
		p := positions{size: size, fresh: &fresh}
		for _, at := range tc.posted {
			p.post(at, 1, true)
		}
		for _, c := range tc.counters {
			p.complete(c, &f, "QP", tc.lost)
		}
		if got := strings.Join(f.bad, "; "); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) || f.extra != tc.extra {
			t.Errorf("complete(%s) = %q, %d past the size, want %q, %d", what, got, f.extra, tc.want, tc.extra)
		}
		if got := strings.Join(fresh.bad, "; "); (got == "") != (tc.kept == "") || !strings.Contains(got, tc.kept) || fresh.good != tc.fresh {
			t.Errorf("complete(%s) = %q, %d after a reset, want %q, %d", what, got, fresh.good, tc.kept, tc.fresh)
		}
	}
}

const head = `{"t":"file","format":1,"driver":"mlx5","device":"x","lost":0}` + "\n" + `{"t":"open","name":"recording"}` + "\n"

// TestRefused checks that lines which no recorder writes are refused.
func TestRefused(t *testing.T) {
	const queues = head + `{"t":"cq","id":"cq1","cqe":7,"got":7,"cqe_size":64}` + "\n" +
		`{"t":"qp","id":"qp1","type":"RC","scq":"cq1","rcq":"","got_cap":[8,8,1,1,0],"qpn":1,"bf":0}` + "\n"
	const srq = `{"t":"srq","id":"srq1","got_wr":7,"got_sge":1,"srqn":1}` + "\n"
	for what, text := range map[string]string{
		"nothing":           "",
		"vectors":           `{"t":"file","format":1,"driver":"rxe"}` + "\n",
		"an unknown member": head + `{"t":"cq","surprise":1}` + "\n",
		"two values":        head + `{"t":"cq","id":"cq1","got":7,"cqe_size":64}{}` + "\n",
		"an unknown line":   head + `{"t":"mr"}` + "\n",
		"an unknown QP":     queues + `{"t":"send","qp":"qp2"}` + "\n",
		"a huge queue":      head + `{"t":"qp","id":"qp1","got_cap":[99999999,1,1,1,1]}` + "\n",
		"two QPs":           queues + `{"t":"qp","id":"qp1","type":"RC","got_cap":[8,8,1,1,0]}` + "\n",
		"a short WQE":       queues + `{"t":"send","qp":"qp1","wrs":[{"id":1}],"wqe":"00","uar":[{"at":0,"bytes":"0000000000000000"}]}` + "\n",
		"a WQE past its end": queues + `{"t":"send","qp":"qp1","wrs":[{"id":1}],"wqe":"` + strings.Repeat("00", 7) + "3f" + strings.Repeat("00", 56) +
			`","uar":[{"at":0,"bytes":"0000000000000000"}]}` + "\n",
		"a short entry":        queues + `{"t":"poll","cq":"cq1","cqes":[{"of":"qp1","slot":0,"bytes":"00"}],"max":1,"n":1}` + "\n",
		"an arm of no CQ":      queues + `{"t":"arm","cq":"cq2","solicited":0,"ci":0,"arm":0,"uar":[{"at":32,"bytes":"0000000000000000"}]}` + "\n",
		"an arm without store": queues + `{"t":"arm","cq":"cq1","solicited":0,"ci":0,"arm":0}` + "\n",
		"a huge SRQ":           queues + `{"t":"srq","id":"srq1","got_wr":99999999,"got_sge":1,"srqn":1}` + "\n",
		"a slot past the SRQ":  queues + srq + `{"t":"recv","on":"srq1","wrs":[{"id":1}],"list":[{"slot":16,"bytes":"00000000000000000000000000000000"}],"db":1}` + "\n",
		"a long slot":          queues + srq + `{"t":"reposted","on":"srq1","list":[{"slot":0,"bytes":"` + strings.Repeat("0", 64) + `"}],"db":1}` + "\n",
		"slots without IDs":    queues + srq + `{"t":"recv","on":"srq1","wrs":[],"list":[{"slot":1,"bytes":"00000000000000000000000000000000"}],"db":1}` + "\n",
		"an unknown SRQ":       queues + `{"t":"reposted","on":"srq1","list":[],"db":1}` + "\n",
		"receives and slots":   queues + `{"t":"recv","on":"qp1","wrs":[{"id":1},{"id":2}],"slots":["00"]}` + "\n",
		"digits that are none": queues + `{"t":"recv","on":"qp1","wrs":[{"id":1}],"slots":["zz"]}` + "\n",
	} {
		j := Judge(card(), map[string][]byte{name: []byte(text)})
		if len(j.recordings) != 0 || !j.Failed() || len(j.Vectors()) != 0 {
			t.Errorf("Judge(%s) = %s, want a refused recording", what, j)
		}
	}
}

// TestOmitted checks that vectors omit QPs that the driver's tests cannot replay.
func TestOmitted(t *testing.T) {
	text := strings.ReplaceAll(string(sample(t)), `"type":"RC"`, `"type":"OTHER"`)
	j := Judge(card(), map[string][]byte{name: []byte(text)})
	if len(j.recordings) != 1 || !strings.Contains(j.String(), "type OTHER") {
		t.Fatalf("Judge = %s, want a recording with the type of its QPs", j)
	}
	for file, v := range j.Vectors() {
		if strings.Contains(string(v), "OTHER") {
			t.Errorf("Vectors()[%s] has a QP of type OTHER, want none", file)
		}
	}
}

// TestSharedReceives checks that vectors have the receives of SRQs and their completions.
func TestSharedReceives(t *testing.T) {
	cqe := strings.Repeat("00", 63) + "20" // of a SEND
	text := head + `{"t":"cq","id":"cq1","cqe":7,"got":7,"cqe_size":64}` + "\n" +
		`{"t":"srq","id":"srq1","got_wr":7,"got_sge":1,"srqn":1,"xrcd":"xrcd","cq":"cq1"}` + "\n" +
		`{"t":"recv","on":"srq1","wrs":[{"id":1}],"bad":-1,"list":[{"slot":15,"bytes":"00000000000001000000000000000000"}],"db":1}` + "\n" +
		`{"t":"reposted","on":"srq1","list":[{"slot":0,"bytes":"00000000000001000000000000000000"}],"db":2}` + "\n" +
		`{"t":"poll","cq":"cq1","cqes":[{"of":"srq1","slot":0,"bytes":"` + cqe + `"}],"max":1,"n":1,"wcs":[],"ci":1}` + "\n"
	j := Judge(card(), map[string][]byte{name: []byte(text)})
	if got := string(j.Vectors()[strings.ReplaceAll(name, "/", "+")]); got != text || len(j.refused) != 0 {
		t.Errorf("Vectors() = %s, want all lines of %s; %s", got, text, j)
	}
}

// TestClean checks that no text of a report controls a terminal.
func TestClean(t *testing.T) {
	r := card("a\x1b[2J FAIL \x07\nmore")
	r.Machine.Device = "\x1b]0;x\x07" + strings.Repeat("y", 1000)
	r.Results[0].Evidence = []string{"é\x9b1m"}
	text := Judge(r, map[string][]byte{"x/\x1b.jsonl": []byte("\x1b")}).String()
	for i, c := range text {
		if c != '\n' && (c < ' ' || c >= 0x7f) {
			t.Errorf("String()[%d] = %q, want printable characters only", i, c)
		}
	}
	if strings.Contains(text, strings.Repeat("y", maxText+1)) {
		t.Errorf("String() = %s, want a bound of %d characters", text, maxText)
	}
}

// FuzzRecording judges arbitrary recordings and writes vectors, which the reader of vectors must accept.
func FuzzRecording(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte(head))
	f.Fuzz(func(t *testing.T, data []byte) {
		j := Judge(card(), map[string][]byte{name: data})
		if j.String() == "" {
			t.Error(`String() = "", want a text`)
		}
		for file, v := range j.Vectors() {
			if _, err := vector.Read(bytes.NewReader(v)); err != nil {
				t.Errorf("vector.Read(%s): %v", file, err)
			}
		}
	})
}
