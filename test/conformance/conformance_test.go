// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayBeOpen lists the areas with open rows, as in their status. It is empty if the connection
// manager is complete.
var mayBeOpen = []string{}

// drivers lists the drivers that can run here.
var drivers = []string{"rxe", "siw"}

// TestConformance compares the tables with the code.
func TestConformance(t *testing.T) {
	root := moduleRoot(t)
	src := readSource(t, root)
	data := os.DirFS(filepath.Join(root, "docs", "data"))
	for _, problem := range check(data, src, functions(t), events(src), drivers, mayBeOpen) {
		t.Errorf("docs/data: %s", problem)
	}
}

// functions reads the list of librdmacm's functions.
func functions(t *testing.T) []string {
	t.Helper()
	out := lines(t, "librdmacm-65.0.txt")
	if len(out) < 80 {
		t.Fatalf("%d functions, want at least 80", len(out))
	}
	return out
}

// lines reads a list of testdata.
func lines(t *testing.T, name string) []string {
	t.Helper()
	list, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	var out []string
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// events returns the kernel's events without their prefix, in the order of their
// names.
func events(src source) []string {
	var out []string
	for symbol := range src["abi"].symbols {
		if event, ok := strings.CutPrefix(symbol, "RDMA_CM_EVENT_"); ok {
			out = append(out, event)
		}
	}
	slices.Sort(out)
	return out
}
