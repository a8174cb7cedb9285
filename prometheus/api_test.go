// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"os"
	"path/filepath"
	"testing"

	"purerdma/test/api"
)

// TestAPI compares the API of this module with its file.
func TestAPI(t *testing.T) {
	files, err := api.Files(".")
	if err != nil || len(files) != 1 {
		t.Fatalf("api.Files = %d files, %v, want 1", len(files), err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s = %q, %v, want %q: if the change of the API is intended, run make api", name, got, err, want)
		}
	}
}
