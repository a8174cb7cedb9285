// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestIndexes requires that the index of each directory of documents links all of them.
func TestIndexes(t *testing.T) {
	for _, dir := range []string{"tutorial", "howto", "explanation", "reference"} {
		files, err := filepath.Glob("../../docs/" + dir + "/*.md")
		if err != nil || len(files) < 5 {
			t.Fatalf("Glob = %d documents in docs/%s, %v, want at least 5", len(files), dir, err)
		}
		index := read(t, "../../docs/"+dir+"/README.md")
		for _, file := range files {
			if name := path.Base(filepath.ToSlash(file)); name != "README.md" && !strings.Contains(index, "("+name+")") {
				t.Errorf("docs/%s/README.md does not link %s", dir, name)
			}
		}
	}
}
