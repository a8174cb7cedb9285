// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"strings"
	"testing"
)

// TestRefused: a file that is not what it says must not pass for one.
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
			t.Errorf("%s: read as %d sessions", name, len(f.Sessions))
		}
	}
	f, err := Read(strings.NewReader(head + `{"t":"open"}` + "\n" + `{"t":"send","wqe":"0a","wrs":[{"id":18446744073709551615}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r := f.Sessions[0].Records[1]
	if r.Line != 3 || r.WQE[0] != 10 || r.WRs[0].ID != 1<<64-1 {
		t.Errorf("read %+v", r)
	}
}
