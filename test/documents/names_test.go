// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	apiName   = regexp.MustCompile(`(?m)^(?:const|var|func|type) (\w+)(?: (?:struct|interface), (?:embedded \S*\.)?(\w+)(?:\(| |$))?`)
	apiMethod = regexp.MustCompile(`(?m)^method \(\*?(\w+)\) (\w+)`)
	isTest    = regexp.MustCompile(`^(?:Test|Example|Fuzz|Benchmark)[A-Z]`)
	docName   = regexp.MustCompile("`[*&]?(?:(\\w+)\\.)?([A-Z]\\w*)(?:\\.([A-Z]\\w*))?[`({]")
)

// exported has the exported names of the public packages, as "cm.Dial", and the members of
// their types, as "Conn.Send".
type exported struct {
	packages map[string]bool
	names    map[string]bool
}

func readExported(t *testing.T) exported {
	t.Helper()
	in := exported{map[string]bool{}, map[string]bool{}}
	err := filepath.WalkDir("../../docs/api", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		pkg := strings.TrimSuffix(path.Base(filepath.ToSlash(file)), ".txt")
		in.add(pkg, read(t, file))
		return nil
	})
	if err != nil || !in.names["cm.Dial"] || !in.names["Conn.Send"] || !in.names["WC.ByteLen"] {
		t.Fatalf("docs/api does not hold the API: %v", err)
	}
	return in
}

func (in *exported) add(pkg, api string) {
	in.packages[pkg] = true
	for _, m := range apiName.FindAllStringSubmatch(api, -1) {
		in.names[pkg+"."+m[1]] = true
		if m[2] != "" {
			in.names[m[1]+"."+m[2]] = true
		}
	}
	for _, m := range apiMethod.FindAllStringSubmatch(api, -1) {
		in.names[m[1]+"."+m[2]] = true
	}
}

// missing returns the exported Go names in a text that do not exist: in backquotes, with a
// package or with a member.
func (in *exported) missing(text string) (out []string) {
	for _, m := range docName.FindAllStringSubmatch(text, -1) {
		pkg, name, member := m[1], m[2], m[3]
		if pkg != "" && pkg[0] <= 'Z' {
			pkg, name, member = "", pkg, name
		}
		switch {
		case isTest.MatchString(name): // test/conformance and test/arch check those
		case pkg != "" && !in.packages[pkg]: // another module's package, or a variable
		case pkg != "" && !in.names[pkg+"."+name]:
			out = append(out, pkg+"."+name)
		case member != "" && !in.names[name+"."+member]:
			out = append(out, name+"."+member)
		}
	}
	return out
}

// TestNames requires that the exported names in documents exist.
func TestNames(t *testing.T) {
	in := readExported(t)
	files, err := Files("../..")
	if err != nil {
		t.Fatalf("Files: %v", err)
	}
	for file, text := range files {
		for _, name := range in.missing(text) {
			t.Errorf("%s names %s, which does not exist", file, name)
		}
	}
}

// TestNamesFindsWhatIsMissing finds names that do not exist.
func TestNamesFindsWhatIsMissing(t *testing.T) {
	in := exported{map[string]bool{}, map[string]bool{}}
	in.add("cm", "func Dial(ctx)\ntype Conn struct\ntype Dialer struct, PD func()\nmethod (*Conn) Send(ctx)\nconst None untyped int = -1\n")
	for text, want := range map[string]string{
		"`cm.Dial`, `cm.Conn.Send`, `Dialer.PD`, `*cm.Conn`, `cm.None`, `Conn.Send(ctx)`": "",
		"`net.Conn`, `conn.Send`, `Gone`, cm.Gone, `os.File`":                             "",
		"`cm.Gone`":      "cm.Gone",
		"`Conn.Gone`":    "Conn.Gone",
		"`cm.Conn.Gone`": "Conn.Gone",
		"`&cm.Gone{}`":   "cm.Gone",
	} {
		if got := strings.Join(in.missing(text), ", "); got != want {
			t.Errorf("missing(%q) = %q, want %q", text, got, want)
		}
	}
}
