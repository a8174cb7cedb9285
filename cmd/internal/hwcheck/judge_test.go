// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestClockRate judges clocks. Some run at the wrong rate, and one goes back.
func TestClockRate(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct {
		stamps []stamp
		ok     bool
	}{
		"right":        {[]stamp{{5000, at(0), at(1)}, {1005000, at(1000), at(1001)}}, true},
		"late polls":   {[]stamp{{5000, at(0), at(500)}, {1005000, at(1000), at(1400)}}, true},
		"1 percent":    {[]stamp{{0, at(0), at(0)}, {1009000, at(1000), at(1000)}}, true},
		"too fast":     {[]stamp{{0, at(0), at(1)}, {1030000, at(1000), at(1001)}}, false},
		"too slow":     {[]stamp{{0, at(0), at(1)}, {970000, at(1000), at(1001)}}, false},
		"goes back":    {[]stamp{{10, at(0), at(1)}, {9, at(1), at(2)}, {1000010, at(1000), at(1001)}}, false},
		"does not run": {[]stamp{{10, at(0), at(1)}, {10, at(1000), at(1001)}}, false},
	} {
		if rate, err := clockRate(tc.stamps, 1000); (err == nil) != tc.ok {
			t.Errorf("clockRate(%s) = %v, %v, want ok %v", name, rate, err, tc.ok)
		}
	}
}

// TestEachOnce judges the results of additions.
func TestEachOnce(t *testing.T) {
	for _, tc := range []struct {
		values []uint64
		ok     bool
	}{
		{[]uint64{2, 0, 1}, true}, {nil, true}, {[]uint64{0, 1, 1}, false}, {[]uint64{1, 2}, false},
	} {
		if err := eachOnce(tc.values); (err == nil) != tc.ok {
			t.Errorf("eachOnce(%v) = %v, want ok %v", tc.values, err, tc.ok)
		}
	}
}

// TestWrapped compares counters of recorded completions.
func TestWrapped(t *testing.T) {
	for what, tc := range map[string]struct {
		requests, receives []uint16
		want               int
		ok                 bool
	}{
		"in order":     {[]uint16{7, 8, 9}, []uint16{100, 101}, 0, true},
		"past 2^16":    {[]uint16{65534, 65535, 0, 1}, []uint16{65535, 0}, 2, true},
		"from 0":       {[]uint16{0, 1}, nil, 0, true},
		"twice":        {[]uint16{1, 1}, nil, 0, false},
		"exchanged":    {nil, []uint16{5, 7, 6}, 0, false},
		"modulo 2^15":  {[]uint16{32767, 0}, nil, 0, false},
		"another size": {nil, []uint16{65535, 1}, 0, false},
	} {
		var text strings.Builder
		for opcode, list := range map[int][]uint16{0: tc.requests, 2: tc.receives} {
			for _, n := range list {
				fmt.Fprintf(&text, `{"t":"poll","cqes":[{"of":"qp1","bytes":"%0120x%04x00%02x"}],"n":1,"wcs":[{"status":0}]}`+"\n", 0, n, opcode<<4|1)
			}
		}
		r, err := parseRecording(text.String())
		if err != nil {
			t.Fatalf("parseRecording(%s): %v", what, err)
		}
		if n, err := r.wrapped(); n != tc.want || (err == nil) != tc.ok {
			t.Errorf("wrapped(%s) = %d, %v, want %d, ok %v", what, n, err, tc.want, tc.ok)
		}
	}
}

// completionOf returns a line of a recording with one completion.
func completionOf(format byte, opcode, size int) string {
	return fmt.Sprintf(`{"t":"poll","cqes":[{"bytes":"%0126x%02x"}],"n":1,"wcs":[{"status":0,"opcode":%d,"byte_len":%d}]}`+"\n", 0, format<<2|1, opcode, size)
}

// TestFormats finds the data in completions of a recording.
func TestFormats(t *testing.T) {
	text := `{"t":"file","lost":3}` + "\n" + `{"t":"send"}` + "\n" + `{"t":"poll","n":0}` + "\n"
	for size, format := range map[int]byte{1: 1, 2: 1, 3: 1, 32: 1, 33: 0, 64: 2} {
		text += completionOf(format, 128, size)
	}
	text += completionOf(0, 2, 8)
	r, err := parseRecording(text)
	if err != nil || r.lost != 3 || r.invalid != 1 || r.count["poll"] != 8 {
		t.Fatalf("parseRecording = %+v, %v, want 3 lost, 1 invalid, 8 polls", r, err)
	}
	got := fmt.Sprint(formats(r.completions))
	if want := "[READs in memory: 8 bytes receives in memory: 33 bytes receives in the completion: 1-3, 32, 64 bytes]"; got != want {
		t.Errorf("formats = %s, want %s", got, want)
	}
	for _, bad := range []string{"no JSON", `{"t":"poll","n":1,"cqes":[{"bytes":"00"}],"wcs":[{}]}`} {
		if r, err := parseRecording(bad); err == nil {
			t.Errorf("parseRecording(%s) = %+v, want an error", bad, r)
		}
	}
}
