// SPDX-License-Identifier: Apache-2.0

package hwjudge

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Sizes in bytes (struct mlx5_wqe_ctrl_seg and mlx5_cqe64 of mlx5dv.h).
const (
	block   = 64 // of a send queue
	segment = 16
	cqeSize = 64
)

// Limits of a recording. The recorder keeps 4096 operations.
const (
	maxLines = 100_000
	maxLine  = 1 << 20
	maxDepth = 1 << 16 // entries of a queue of a QP
	maxCQ    = 1 << 24
)

// line is a line of a recording. README.md of test/oracle describes it. It has the members that a recorder writes.
type line struct {
	T    string `json:"t"`
	ID   string `json:"id"`
	Name string `json:"name"`

	Format int    `json:"format"`
	Driver string `json:"driver"`
	Device string `json:"device"`
	Lost   uint64 `json:"lost"`

	CQE     int    `json:"cqe"`
	Got     int    `json:"got"`
	CQESize int    `json:"cqe_size"`
	Type    string `json:"type"`
	SCQ     string `json:"scq"`
	RCQ     string `json:"rcq"`
	GotCap  []int  `json:"got_cap"`
	QPN     uint32 `json:"qpn"`
	BF      int    `json:"bf"`
	SRQ     string `json:"srq"`
	TSO     int    `json:"tso_header"`
	GotWR   int    `json:"got_wr"`
	GotSGE  int    `json:"got_sge"`
	SRQN    uint32 `json:"srqn"`
	XRCD    string `json:"xrcd"`

	QP  string `json:"qp"`
	On  string `json:"on"`
	WRs []struct {
		ID uint64 `json:"id"`
	} `json:"wrs"`
	Bad   int             `json:"bad"`
	At    uint32          `json:"at"`
	Slots json.RawMessage `json:"slots"`
	List  []struct {
		Slot  uint32     `json:"slot"`
		Bytes bytesInHex `json:"bytes"`
	} `json:"list"` // of an SRQ
	WQE bytesInHex `json:"wqe"`
	DB  uint32     `json:"db"`
	UAR []struct {
		At    uint32     `json:"at"`
		Bytes bytesInHex `json:"bytes"`
	} `json:"uar"`

	CQ   string `json:"cq"`
	CQEs []struct {
		Of    string     `json:"of"`
		Slot  uint32     `json:"slot"`
		Bytes bytesInHex `json:"bytes"`
	} `json:"cqes"`
	Max int    `json:"max"`
	N   int    `json:"n"`
	WCs []wc   `json:"wcs"`
	CI  uint32 `json:"ci"`

	Solicited int    `json:"solicited"`
	Arm       uint32 `json:"arm"`

	text []byte
}

// wc is a completion that the driver returned.
type wc struct {
	ID        uint64 `json:"id"`
	Status    uint64 `json:"status"`
	VendorErr uint32 `json:"vendor_err"`
	QPN       uint32 `json:"qpn"`
	Opcode    uint64 `json:"opcode"`
	ByteLen   uint32 `json:"byte_len"`
	SrcQP     uint32 `json:"src_qp"`
	Flags     uint64 `json:"flags"`
	PKeyIndex uint32 `json:"pkey_index"`
	SLID      uint32 `json:"slid"`
	SL        uint32 `json:"sl"`
	PathBits  uint32 `json:"path_bits"`
	Imm       uint32 `json:"imm"`
	Inv       uint32 `json:"inv"`
}

// bytesInHex are bytes as a string of digits.
type bytesInHex []byte

// UnmarshalText decodes the digits.
func (b *bytesInHex) UnmarshalText(text []byte) (err error) {
	*b, err = hex.AppendDecode(nil, text)
	return err
}

// cqe returns the 64 bytes of the entry of a poll that all sizes of entries have.
func (l *line) cqe() cqe { return cqe(l.CQEs[0].Bytes[len(l.CQEs[0].Bytes)-cqeSize:]) }

// requests calls f with the WQE and the index of the first block of each request of a list of sends.
func (l *line) requests(f func(wqe []byte, at uint16)) {
	at := uint16(l.At)
	for rest := l.WQE; len(rest) > 0; {
		n := blocks(rest)
		f(rest[:n*block], at)
		rest, at = rest[n*block:], at+uint16(n)
	}
}

// blocks returns the number of blocks of the WQE at the beginning of b.
func blocks(b []byte) int { return max(1, (int(b[7]&0x3f)*segment+block-1)/block) }

// recording is a valid recording of one check.
type recording struct {
	name  string // of the file in the archive
	lost  uint64
	head  [][]byte // the first two lines
	lines []line   // all others
	qps   map[string]*line
	srqs  map[string]*line
	cqs   map[string]*line
}

// readRecording reads a recording. It refuses lines that no recorder writes, or that name queues which no line before them has.
func readRecording(name string, data []byte) (*recording, error) {
	r := &recording{name: name, qps: map[string]*line{}, srqs: map[string]*line{}, cqs: map[string]*line{}}
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if number > maxLines || len(text) > maxLine {
			return nil, fmt.Errorf("line %d: too many lines or bytes", number)
		}
		if err := r.add(number, bytes.TrimRight(text, "\n")); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if number < 2 {
		return nil, errors.New("no recording")
	}
	return r, nil
}

// add reads a line.
func (r *recording) add(number int, text []byte) error {
	l := line{text: text}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one value")
	}
	switch {
	case number == 1:
		if l.T != "file" || l.Format != 1 || l.Driver != "mlx5" {
			return errors.New("not a recording of a ConnectX in format 1")
		}
		r.lost = l.Lost
	case number == 2:
		if l.T != "open" {
			return errors.New("no session")
		}
	default:
		if err := r.check(&l); err != nil {
			return fmt.Errorf("%s: %w", clean(l.T), err)
		}
		r.lines = append(r.lines, l)
		return nil
	}
	r.head = append(r.head, text)
	return nil
}

var errShape = errors.New("no recorder writes such a line")

// check checks a line, and adds a queue.
func (r *recording) check(l *line) error {
	ok := false
	switch l.T {
	case "cq":
		ok = r.cqs[l.ID] == nil && l.ID != "" && l.Got > 0 && l.Got < maxCQ && (l.CQESize == cqeSize || l.CQESize == 2*cqeSize)
		r.cqs[l.ID] = l
	case "qp":
		ok = r.qps[l.ID] == nil && l.ID != "" && len(l.GotCap) == 5 && (l.SCQ == "" || r.cqs[l.SCQ] != nil) && (l.RCQ == "" || r.cqs[l.RCQ] != nil) &&
			(l.SRQ == "" || r.srqs[l.SRQ] != nil) && l.TSO >= 0 && l.TSO <= maxDepth
		for _, n := range l.GotCap {
			ok = ok && n >= 0 && n <= maxDepth
		}
		r.qps[l.ID] = l
	case "srq":
		ok = r.srqs[l.ID] == nil && l.ID != "" && l.GotWR > 0 && l.GotWR < maxDepth && l.GotSGE > 0 && l.GotSGE < block && (l.CQ == "" || r.cqs[l.CQ] != nil)
		r.srqs[l.ID] = l
	case "reposted":
		ok = r.inSRQ(l)
	case "send":
		ok = r.qps[l.QP] != nil && len(l.WRs) > 0 && len(l.UAR) == 1 && len(l.UAR[0].Bytes) >= 8 && l.wellFormed()
	case "recv":
		if r.srqs[l.On] != nil {
			ok = len(l.WRs) == len(l.List) && r.inSRQ(l)
			break
		}
		var slots []bytesInHex
		if err := json.Unmarshal(l.Slots, &slots); err != nil {
			return err
		}
		ok = r.qps[l.On] != nil && len(l.WRs) > 0 && len(slots) == len(l.WRs)
	case "poll":
		// The name of an entry's queue is empty if that is not recorded.
		ok = r.cqs[l.CQ] != nil && len(l.CQEs) == 1 && l.N >= 0 && len(l.WCs) <= l.N &&
			(l.CQEs[0].Of == "" || r.qps[l.CQEs[0].Of] != nil || r.srqs[l.CQEs[0].Of] != nil) &&
			(len(l.CQEs[0].Bytes) == cqeSize || len(l.CQEs[0].Bytes) == 2*cqeSize)
	case "arm":
		ok = r.cqs[l.CQ] != nil && len(l.UAR) == 1 && len(l.UAR[0].Bytes) == 8
	}
	if !ok {
		return errShape
	}
	return nil
}

// inSRQ reports whether the receives of a line are in slots of a known SRQ. Page faults double the number of its slots.
func (r *recording) inSRQ(l *line) bool {
	s := r.srqs[l.On]
	ok := s != nil && len(l.List) > 0
	for _, e := range l.List {
		ok = ok && int(e.Slot) < 2*(s.GotWR+1) && len(e.Bytes) > 0 && len(e.Bytes)%segment == 0 && len(e.Bytes) <= s.GotSGE*segment
	}
	return ok
}

// wellFormed reports whether the WQEs of a list of sends have the number of its requests.
func (l *line) wellFormed() bool {
	n := 0
	for rest := l.WQE; len(rest) > 0; n++ {
		if len(rest)%block != 0 || len(rest) < blocks(rest)*block {
			return false
		}
		rest = rest[blocks(rest)*block:]
	}
	return n == len(l.WRs)
}

// String describes the recording.
func (r *recording) String() string {
	n := map[string]int{}
	for i := range r.lines {
		n[r.lines[i].T]++
	}
	s := fmt.Sprintf("%s: %d QPs, %d lists of sends, %d lists of receives, %d completions, %d operations before it",
		clean(r.name), len(r.qps), n["send"], n["recv"], n["poll"], r.lost)
	if missing := r.omitted(); len(missing) > 0 {
		list := []string{}
		for id, reason := range missing {
			list = append(list, clean(id)+" ("+reason+")")
		}
		slices.Sort(list)
		s += "; not in its vectors: " + strings.Join(list, ", ")
	}
	return s
}

// replayedTypes and replayedOpcodes are the QPs and the WQEs that the driver's tests repeat.
var (
	replayedTypes   = []string{"RC", "UC", "UD", "XRC_SEND", "RAW_PACKET", "DCI", "DCT"}
	replayedOpcodes = []byte{0x01, 0x08, 0x09, 0x0a, 0x0b, 0x0e, 0x10, 0x11, 0x12, 0x25} // SEND_INVAL to ATOMIC_FA, UMR
)

// omitted returns the QPs that the driver's tests do not replay, with the reasons.
func (r *recording) omitted() map[string]string {
	reasons := map[string]string{}
	for id, q := range r.qps {
		if !slices.Contains(replayedTypes, q.Type) {
			reasons[id] = "type " + clean(q.Type)
		}
	}
	for i := range r.lines {
		l := &r.lines[i]
		if l.T != "send" {
			continue
		}
		l.requests(func(wqe []byte, _ uint16) {
			if !slices.Contains(replayedOpcodes, wqe[3]) {
				reasons[l.QP] = fmt.Sprintf("a request of opcode %#x", wqe[3])
			}
		})
	}
	return reasons
}
