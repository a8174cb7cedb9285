// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"strings"
	"testing"
)

// TestRefused checks that Read refuses files with an invalid format.
func TestRefused(t *testing.T) {
	const head = `{"t":"file","format":1,"driver":"mlx5"}` + "\n"
	for name, text := range map[string]string{
		"nothing":              "",
		"no head":              `{"t":"open"}`,
		"another format":       `{"t":"file","format":2}`,
		"a second head":        head + head,
		"a record too early":   head + `{"t":"pd","id":"pd0"}`,
		"a member of no sense": head + `{"t":"open","colour":1}`,
		"half a line":          head + `{"t":"open"`,
		"odd digits":           head + `{"t":"open","wqe":"abc"}`,
		"a member of two meanings": head + `{"t":"open"}` + "\n" +
			`{"t":"poll","cqes":[{"bytes":7}]}`,
	} {
		if f, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("Read(%s) = %d sessions, want an error", name, len(f.Sessions))
		}
	}
	f, err := Read(strings.NewReader(head + `{"t":"open"}` + "\n" + `{"t":"send","wqe":"0a","wrs":[{"id":18446744073709551615}]}`))
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	r := f.Sessions[0].Records[1]
	if r.Line != 3 || r.WQE[0] != 10 || r.WRs[0].ID != 1<<64-1 {
		t.Errorf("record = %+v, want line 3 with the WQE 0a and the ID 1<<64-1", r)
	}
}
