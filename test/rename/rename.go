// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A renamer replaces the path of a module in text. It leaves alone the name of the project,
// which is the same word in an unpublished module, and the names of directories.
type renamer struct {
	old, new string
	uses     []*regexp.Regexp // each with the groups before, path and after
}

// modulePath matches the paths that a published module may have. They have a host with a dot, and a
// name.
var modulePath = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_~-]+(\.[A-Za-z0-9_~-]+)*)+$`)

func newRenamer(old, new string) (*renamer, error) {
	if !modulePath.MatchString(new) {
		return nil, fmt.Errorf("%q is not a module path: want host/name, such as example.org/rdma", new)
	}
	const (
		start = `(^|[^A-Za-z0-9_./~-])` // not within another path or word
		end   = `($|[^A-Za-z0-9_./~-])`
	)
	path := `(` + regexp.QuoteMeta(old) + `)`
	r := &renamer{old: old, new: new}
	for _, use := range []string{
		start + path + `(/)`,                                           // a package
		start + path + `(@v|=| v[0-9])`,                                // go get, -replace=, a requirement
		`((?:module|require|replace) )` + path + end,                   // go.mod
		`(module = ")` + path + `(")`,                                  // a constant
		`(-(?:require|replace|dropreplace|droprequire)=)` + path + end, // go mod edit
	} {
		r.uses = append(r.uses, regexp.MustCompile(`(?m)`+use))
	}
	return r, nil
}

// text returns a text with the new path.
func (r *renamer) text(b []byte) []byte {
	for _, use := range r.uses {
		var out []byte
		for {
			m := use.FindSubmatchIndex(b)
			if m == nil {
				break
			}
			out = append(append(out, b[:m[4]]...), r.new...)
			b = b[m[5]:] // the following text may begin the next match
		}
		b = append(out, b...)
	}
	return b
}

// tree renames the module in all files below root. Go files are formatted again, because the
// new path sorts differently. It returns the names of the changed files.
func (r *renamer) tree(root string) ([]string, error) {
	var changed []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel, _ := filepath.Rel(root, file); d.IsDir() && slices.Contains([]string{".git", "bin"}, rel) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || d.Name() == ".git" {
			return nil
		}
		old, err := os.ReadFile(file)
		if err != nil || bytes.IndexByte(old, 0) >= 0 || !bytes.Contains(old, []byte(r.old)) {
			return err
		}
		text := r.text(old)
		if bytes.Equal(text, old) {
			return nil
		}
		if strings.HasSuffix(file, ".go") {
			if text, err = format.Source(text); err != nil {
				return fmt.Errorf("formatting %s: %w", file, err)
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		changed = append(changed, file)
		return os.WriteFile(file, text, info.Mode().Perm())
	})
	return changed, err
}
