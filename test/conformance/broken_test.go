// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

const sampleCode = `package cm
type stage struct{ kid int }
func (s *stage) PD() {}
type ID struct{ stage; Context any }
func (id *ID) Connect() {}
func Dial() {}
type WR = provider.WR
`

const sampleProvider = `package provider
type WR struct{ ID uint64 }
`

const sampleTests = `package cm_test
func TestEcho(t *testing.T) { t.Run("IPv4", nil) }
func helper() {}
`

const sampleTables = `
page,section,sentences
new,NOTES,2
old,NOTES,1

sentence,requires,status,where,shown by,remark
new NOTES 1,one,copied,''cm.ID.Connect'' and ''cm.Dial'',''cm.TestEcho'',-
new NOTES 2,two,translated,''cm.ID.PD'' and ''cm.WR.ID'',''cm.TestEcho/IPv4'',why

older sentence,newer sentence,difference
old NOTES 1,new NOTES 2,none
-,new NOTES 1,only the newer page has it

function,status,where,shown by,remark
''rdma_connect'',copied (open: later),''cm.ID.Later'',-,-
''rsocket'' and ''rbind'',left out,-,-,rsockets

feature,status,where,shown by,remark
GIDs,encoded,''cm.Dial'',''cm.TestEcho'',no fabric

event,driver,how,status,shown by,remark
ESTABLISHED,rxe,so,provoked,''cm.TestEcho'',-
ESTABLISHED,siw,so,injected,''cm.TestEcho'',why
`

// TestBroken breaks a sample in each way that the check must detect.
func TestBroken(t *testing.T) {
	src := source{}
	for file, text := range map[string]string{"cm/id.go": sampleCode, "cm/id_test.go": sampleTests, "provider/wr.go": sampleProvider} {
		if err := src.add(file, []byte(text)); err != nil {
			t.Fatalf("src.add: %v", err)
		}
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"whole", "", "", ""},
		{"empty cell", ",one,", ",,", `column "requires" is empty`},
		{"cell missing", ",one,copied,", ",copied,", "wrong number of fields"},
		{"sentence missing", "new NOTES 2,two", "new NOTES 3,two", "new NOTES 2 has no row"},
		{"sentence too many", ",NOTES,2", ",NOTES,1", "new NOTES 2 is not in the table of pages"},
		{"sentence twice", "new NOTES 2,two", "new NOTES 1,two", "new NOTES 1 is there twice"},
		{"older sentence missing", "old NOTES 1,", "-,", "old NOTES 1 has no row"},
		{"older sentence points nowhere", "old NOTES 1,new NOTES 2,", "old NOTES 1,new NOTES 7,", "new NOTES 7, which it points to, is no sentence"},
		{"no number", ",NOTES,2", ",NOTES,some", "is no number of sentences"},
		{"unknown status", ",two,translated,", ",two,skipped,", `"skipped" is no status`},
		{"no reason", ",why", ",-", "translated without a reason"},
		{"symbol gone", "cm.Dial", "cm.Dail", "symbol cm.Dail does not exist"},
		{"method gone", "cm.ID.Connect", "cm.ID.Conect", "symbol cm.ID.Conect does not exist"},
		{"embedded method gone", "cm.ID.PD", "cm.ID.QP", "symbol cm.ID.QP does not exist"},
		{"field of an alias gone", "cm.WR.ID", "cm.WR.AH", "symbol cm.WR.AH does not exist"},
		{"package gone", "cm.Dial", "mc.Dial", "symbol mc.Dial does not exist"},
		{"symbol of a test", "cm.Dial", "cm.helper", "symbol cm.helper does not exist"},
		{"test gone", "''cm.TestEcho'',-", "''cm.TestEko'',-", "test cm.TestEko does not exist"},
		{"part of a test gone", "TestEcho/IPv4", "TestEcho/IPv6", "test cm.TestEcho/IPv6 does not exist"},
		{"no test", "''cm.TestEcho'',-", "a test,-", "it names no test"},
		{"no symbol", "''cm.ID.Connect'' and ''cm.Dial''", "here", "it names no symbol"},
		{"function missing", "''rsocket'' and ''rbind''", "''rsocket''", "rbind has no row"},
		{"function unknown", "''rbind''", "''rbind'' and ''rbond''", "rbond is not in the list"},
		{"left out without need", ",rsockets", ",too hard", "only rsockets and ibacm may be left out"},
		{"open and not allowed", "(open: later)", "(open: never)", `"never" is not in the list`},
		{"open no more", "copied (open: later)", "copied", `no row is open for "later" any more`},
		{"feature that is said to run", "GIDs,encoded", "GIDs,copied", `"copied" is no status`},
		{"feature without a reason", ",no fabric", ",-", "encoded without a reason"},
		{"feature without a test", "''cm.TestEcho'',no fabric", "''cm.TestGIDs'',no fabric", "test cm.TestGIDs does not exist"},
		{"no features", "GIDs,encoded,''cm.Dial'',''cm.TestEcho'',no fabric\n", "", "no table of what no driver runs"},
		{"event missing", "ESTABLISHED,siw", "ESTABLISHED,rxe", "ESTABLISHED siw has no row"},
		{"event unknown", "ESTABLISHED,siw", "ESTABLISHD,siw", "ESTABLISHD siw is no event"},
	} {
		data := csvFiles("conformance", strings.Replace(sampleTables, tc.old, tc.new, 1))
		problems := strings.Join(check(data, src,
			[]string{"rdma_connect", "rsocket", "rbind"}, []string{"ESTABLISHED"}, drivers, []string{"later"}), "\n")
		if tc.want == "" && problems != "" || !strings.Contains(problems, tc.want) {
			t.Errorf("check of %s =\n%s\nwant %q", tc.name, problems, tc.want)
		}
	}
}

// csvFiles returns the tables in a text as the files name-0.csv, name-1.csv and so on. An empty line
// separates the tables. Names in the text have two single quotes on each side.
func csvFiles(name, text string) fs.FS {
	files := fstest.MapFS{}
	for i, table := range strings.Split(strings.ReplaceAll(text, "''", "`"), "\n\n") {
		files[fmt.Sprintf("%s-%d.csv", name, i)] = &fstest.MapFile{Data: []byte(table)}
	}
	return files
}
