// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestModulesOf(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"suite/sub", "other", "plain"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
	}
	for _, dir := range []string{".", "suite", "other"} {
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), nil, 0o666); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	got := modulesOf([]string{"./suite", "./...", "./plain", "./suite/sub", "example.com/x", "./other/...", "./suite/sub/..."})
	want := []module{
		{"suite", []string{"./", "./sub", "./sub/..."}},
		{".", []string{"./...", "./plain", "example.com/x"}},
		{"other", []string{"./..."}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("modulesOf() = %v, want %v", got, want)
	}
}
