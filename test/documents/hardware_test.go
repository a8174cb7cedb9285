// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestHardware generates the document from no report, from a report about a card, and from others.
func TestHardware(t *testing.T) {
	const card = `{"version":"rdmahw v0.1.0","date":"2030-01-02T00:00:00Z","peer":"loopback",
		"machine":{"kind":"card","device":"mlx5_0","driver":"mlx5","board":"MT_1|2","firmware":"16.35","kernel":"6.1","arch":"amd64","page_size":4096,"cpus":2},
		"results":[{"id":"fence","title":"T","status":"FAIL","reason":"a <b>\nstacks","seconds":1},{"id":"atomics","title":"T","status":"PASS","seconds":1}]}`
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  []string
		err   string
	}{
		"none":     {fstest.MapFS{}, []string{noHardware}, ""},
		"card":     {fstest.MapFS{"docs/data/hardware/a.json": {Data: []byte(card)}}, []string{"| MT_1 2 | mlx5 | 16.35 | 6.1, amd64 |", "1 passed, 1 failed", "`fence` FAIL: a  b\n"}, ""},
		"model":    {fstest.MapFS{"docs/data/hardware/a.json": {Data: []byte(strings.Replace(card, `"card"`, `"model"`, 1))}}, nil, "the device is a model"},
		"no JSON":  {fstest.MapFS{"docs/data/hardware/a.json": {Data: []byte("text")}}, nil, "a.json"},
		"archives": {fstest.MapFS{"docs/data/hardware/report.tar.gz": {Data: []byte{0x1f, 0x8b}}}, nil, "report.tar.gz"},
	} {
		got, err := hardware(tc.files, "docs/data/hardware")
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("hardware(%s) = %v, want %q", name, err, tc.err)
		}
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("hardware(%s) = %s, want %q in it", name, got, want)
			}
		}
	}
}
