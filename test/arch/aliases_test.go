// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/test/aliases"
)

// TestAliases checks that package verbs has the aliases of package provider.
func TestAliases(t *testing.T) {
	want, err := aliases.Files("../../provider")
	if err != nil {
		t.Fatalf("aliases.Files: %v", err)
	}
	have, err := filepath.Glob("../../verbs/alias*.go")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, name := range have {
		if _, ok := want[filepath.Base(name)]; !ok {
			t.Errorf("%s has no counterpart in package provider", name)
		}
	}
	all := ""
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join("../../verbs", name))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("verbs/%s is out of date (%v): go run ./test/aliases/write", name, err)
		}
		all += string(text)
	}
	for name := range aliases.Ours {
		if !strings.Contains(all, "\ntype "+name+" = provider."+name+"\n") {
			t.Errorf("package provider has no %s", name)
		}
	}
	for _, s := range []string{
		"//\t\tByteLen         uint32 // received or read bytes.", // field with its comment
		"//\tfunc (w *WC) Err() error\n",
		"WCRemAccessErr   WCStatus = provider.WCRemAccessErr\n",
		"var ErrFull = provider.ErrFull\n",
	} {
		if !strings.Contains(all, s) {
			t.Errorf("the aliases lack %q", s)
		}
	}
}
