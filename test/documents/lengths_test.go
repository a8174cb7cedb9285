// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"strings"
	"testing"
	"unicode"
)

// longest bounds the words of documents that must stay short.
var longest = map[string]int{
	"README.md":                            720,  // a screen, and a page
	"docs/explanation/performance.md":      1000, // two pages
	"docs/reference/glossary.md":           1050,
	"docs/tutorial/first-echo.md":          720,
	"docs/tutorial/http-over-rdma.md":      1250,
	"docs/tutorial/calls-with-messages.md": 1350,
	"docs/tutorial/key-value-store.md":     1600,
}

// words returns the number of words in a document. Marks of Markdown and Go are no words.
func words(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// TestLengths requires that documents are short.
func TestLengths(t *testing.T) {
	for name, most := range longest {
		if n := words(read(t, "../../"+name)); n > most {
			t.Errorf("%s has %d words, want at most %d", name, n, most)
		}
	}
}
