// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	apiError = regexp.MustCompile(`(?m)^(?:type (\w+Error) (?:struct$|=)|var (Err\w+) )`)
	variable = regexp.MustCompile(`(?:Getenv|LookupEnv)\("((?:PURERDMA|RDMA|MLX5|XDG)\w+)"\)|"(RDMA_(?:TRACE|LONG_TESTS))"`)
)

// TestErrors requires that errors.md names every exported error type and value.
func TestErrors(t *testing.T) {
	doc := read(t, "../../docs/reference/errors.md")
	const dir = "../../docs/api"
	n := 0
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		pkg := strings.TrimSuffix(path.Base(filepath.ToSlash(file)), ".txt")
		for _, m := range apiError.FindAllStringSubmatch(read(t, file), -1) {
			n++
			if name := pkg + "." + m[1] + m[2]; !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("errors.md does not name %s", name)
			}
		}
		return nil
	})
	if err != nil || n < 30 {
		t.Errorf("WalkDir(%s) = %v with %d errors, want more than 30", dir, err, n)
	}
}

// TestVariables requires that environment.md names every environment variable that the
// code reads, tests apart.
func TestVariables(t *testing.T) {
	doc := read(t, "../../docs/reference/environment.md")
	n := 0
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		for _, m := range variable.FindAllStringSubmatch(read(t, file), -1) {
			n++
			if name := m[1] + m[2]; !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("environment.md does not name %s, which %s reads", name, file)
			}
		}
		return nil
	})
	if err != nil || n < 10 {
		t.Errorf("WalkDir = %v with %d variables, want more than 10", err, n)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	return string(text)
}
