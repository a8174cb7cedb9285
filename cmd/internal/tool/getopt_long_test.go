// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"strings"
	"testing"
)

func TestGetoptLong(t *testing.T) {
	all := []LongFlag{{'p', "port", true}, {'i', "ib-port", true}, {'d', "ib-dev", true}, {'e', "events", false}, {'x', "", false}}
	for _, tc := range []struct{ args, want, rest, err string }{
		{"--port=1 -i2 host --events", "p=1 i=2 e", "host", ""},
		{"--port 1 -p 2 -ep 3", "p=1 p=2 e p=3", "", ""},
		{"--po 1 --ev", "p=1 e", "", ""},
		{"--ib-d=rxe0", "d=rxe0", "", ""},
		{"-e -- --port -p", "e", "--port -p", ""},
		{"-p --events", "p=--events", "", ""},
		{"--ib=1", "", "", "option '--ib' is ambiguous; possibilities: '--ib-port' '--ib-dev'"},
		{"-e --foo=1 -p", "e", "", "unrecognized option '--foo'"},
		{"--events=1", "", "", "option '--events' doesn't allow an argument"},
		{"-e --port", "e", "", "option '--port' requires an argument"},
		{"-e -p", "e", "", "option requires an argument -- 'p'"},
		{"-ez", "e", "", "invalid option -- 'z'"},
	} {
		flags, rest, err := GetoptLong(all, strings.Fields(tc.args))
		var got []string
		for _, f := range flags {
			s := string(f.Name)
			if f.Value != "" {
				s += "=" + f.Value
			}
			got = append(got, s)
		}
		said := ""
		if err != nil {
			said = err.Error()
		}
		if strings.Join(got, " ") != tc.want || strings.Join(rest, " ") != tc.rest || said != tc.err {
			t.Errorf("GetoptLong(%q) = %q, rest %q, %v\nwant %q, rest %q, %s", tc.args, got, rest, err, tc.want, tc.rest, tc.err)
		}
	}
}
