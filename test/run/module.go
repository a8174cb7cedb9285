// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
)

// module is a Go module with the package patterns that a row names in it. Some suites are modules
// of their own, and the go command accepts only packages of one module at a time.
type module struct {
	dir      string // relative to the working directory
	patterns []string
}

// modulesOf groups patterns by their module, in the order of the first pattern of each. The
// patterns of another module become relative to its directory.
func modulesOf(patterns []string) []module {
	var found []module
next:
	for _, p := range patterns {
		dir, p := moduleOf(p)
		for i := range found {
			if found[i].dir == dir {
				found[i].patterns = append(found[i].patterns, p)
				continue next
			}
		}
		found = append(found, module{dir, []string{p}})
	}
	return found
}

// moduleOf returns the directory of a pattern's module, and the pattern relative to it. The
// directory is ".", unless the pattern names a directory in a module below the working directory.
func moduleOf(pattern string) (dir, relative string) {
	if !strings.HasPrefix(pattern, "./") {
		return ".", pattern
	}
	named, rest, below := strings.Cut(pattern, "/...")
	for dir = filepath.Clean(named); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		relative = "./" + strings.TrimPrefix(strings.TrimPrefix(filepath.Clean(named), dir), "/")
		if below {
			relative = strings.TrimSuffix(relative, "/") + "/..." + rest
		}
		return dir, relative
	}
	return ".", pattern
}
