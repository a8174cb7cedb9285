// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestOnlyHere finds the tests that use vmtest directly, by a function, by a method, by a variable
// and by a type, and no others.
func TestOnlyHere(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a_test.go": `package a
import ("testing"; "purerdma/internal/vmtest")
func TestDirect(t *testing.T) { vmtest.Hosts(t, 2) }
func TestByFunction(t *testing.T) { setUp(t) }
func TestByMethod(t *testing.T) { newRig().open(t) }
func TestByTable(t *testing.T) { for _, f := range table { f(t) } }
func TestPlain(t *testing.T) { plain(t) }
func TestMain(m *testing.M) { vmtest.Main(m) }
func ExamplePlain() {}`,
		"b_test.go": `package a_test
import ("testing"; "purerdma/internal/vmtest")
type rig struct{}
func newRig() *rig { return nil }
func (r *rig) open(t *testing.T) { setUp(t) }
func setUp(t *testing.T) { vmtest.Need(t) }
func plain(t *testing.T) { plain(t); _ = vmtest.Host{} }
var table = []func(*testing.T){setUp}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	p := pkg{ImportPath: "a", Dir: dir, TestGoFiles: []string{"a_test.go"}, XTestGoFiles: []string{"b_test.go"}}
	tests := []string{"TestDirect", "TestByFunction", "TestByMethod", "TestByTable", "TestPlain", "ExamplePlain", "TestElsewhere"}
	// A test of another file is unknown, so it runs in the virtual machine.
	want := []string{"TestPlain", "ExamplePlain"}
	if got, err := onlyHere(p, tests); err != nil || !slices.Equal(got, want) {
		t.Errorf("onlyHere(%q) = %q, %v, want %q", tests, got, err, want)
	}
	p.TestGoFiles = []string{"missing_test.go"}
	if _, err := onlyHere(p, tests); err == nil {
		t.Error("onlyHere of a file that does not exist = nil error, want one")
	}
}
