// SPDX-License-Identifier: Apache-2.0

package hwreport

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"reflect"
	"strings"
	"testing"
)

// zipped compresses what write adds to an archive.
func zipped(t testing.TB, write func(*tar.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	archive := tar.NewWriter(zip)
	write(archive)
	if err := archive.Close(); err != nil {
		t.Fatalf("tar.Writer.Close: %v", err)
	}
	if err := zip.Close(); err != nil {
		t.Fatalf("gzip.Writer.Close: %v", err)
	}
	return b.Bytes()
}

// member adds a file to an archive.
func member(t testing.TB, w *tar.Writer, h tar.Header, text string) {
	t.Helper()
	h.Size = int64(len(text))
	if err := w.WriteHeader(&h); err != nil {
		t.Fatalf("tar.Writer.WriteHeader: %v", err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatalf("tar.Writer.Write: %v", err)
	}
}

const emptyReport = `{"machine":{"kind":"model"}}`

// TestReadArchive reads a written archive.
func TestReadArchive(t *testing.T) {
	var b bytes.Buffer
	if err := sample.WriteArchive(&b, map[string][]byte{"log/atomics-again.txt": []byte("a log")}); err != nil {
		t.Fatalf("WriteArchive: %v", err)
	}
	r, files, err := ReadArchive(&b)
	if err != nil || !reflect.DeepEqual(*r, sample) {
		t.Fatalf("ReadArchive = %+v, %v, want %+v", r, err, sample)
	}
	if string(files["log/atomics-again.txt"]) != "a log" || len(files) != 3 {
		t.Errorf("ReadArchive = files %v, want the report twice and the log", files)
	}
}

// TestReadArchiveRefuses checks that ReadArchive refuses archives that no run writes.
func TestReadArchiveRefuses(t *testing.T) {
	for what, tc := range map[string]struct {
		archive []byte
		want    string
	}{
		"no archive":   {[]byte("this is not an archive"), "gzip"},
		"no report":    {zipped(t, func(*tar.Writer) {}), "no report.json"},
		"a bad report": {zipped(t, func(w *tar.Writer) { member(t, w, tar.Header{Name: JSONFile}, "{}") }), "unknown kind"},
		"parent":       {zipped(t, func(w *tar.Writer) { member(t, w, tar.Header{Name: "../x"}, "") }), "simple name"},
		"absolute":     {zipped(t, func(w *tar.Writer) { member(t, w, tar.Header{Name: "/x"}, "") }), "simple name"},
		"dots inside":  {zipped(t, func(w *tar.Writer) { member(t, w, tar.Header{Name: "a/../b"}, "") }), "simple name"},
		"control":      {zipped(t, func(w *tar.Writer) { member(t, w, tar.Header{Name: "a\x1b[2J"}, "") }), "simple name"},
		"symbolic link": {zipped(t, func(w *tar.Writer) {
			member(t, w, tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, "")
		}), "regular file"},
		"two files": {zipped(t, func(w *tar.Writer) {
			member(t, w, tar.Header{Name: "x"}, "1")
			member(t, w, tar.Header{Name: "x"}, "2")
		}), "two files"},
		"many files": {zipped(t, func(w *tar.Writer) {
			for i := range maxFiles + 1 {
				member(t, w, tar.Header{Name: "x" + strings.Repeat("0", i%50) + strings.Repeat("1", i/50)}, "")
			}
		}), "too many"},
		"global header": {zipped(t, func(w *tar.Writer) {
			member(t, w, tar.Header{Name: "x", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}, "")
		}), "regular file"},
	} {
		if r, _, err := ReadArchive(bytes.NewReader(tc.archive)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ReadArchive(%s) = %+v, %v, want an error with %q", what, r, err, tc.want)
		}
	}
}

// TestReadArchiveBounds checks that a small archive cannot expand without a bound.
func TestReadArchiveBounds(t *testing.T) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	archive := tar.NewWriter(zip)
	if err := archive.WriteHeader(&tar.Header{Name: "x", Size: maxFile + 1}); err != nil {
		t.Fatalf("tar.Writer.WriteHeader: %v", err)
	}
	if err := zip.Close(); err != nil {
		t.Fatalf("gzip.Writer.Close: %v", err)
	}
	if r, _, err := ReadArchive(&b); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("ReadArchive of a file of %d bytes = %+v, %v, want an error", maxFile+1, r, err)
	}
	c := &capped{strings.NewReader("abcdef"), 4}
	if got, err := io.ReadAll(c); string(got) != "abcd" || err == nil {
		t.Errorf("io.ReadAll(capped) = %q, %v, want 4 bytes and an error", got, err)
	}
}

// FuzzReadArchive reads arbitrary archives, with and without compression around the input.
func FuzzReadArchive(f *testing.F) {
	var plain bytes.Buffer
	archive := tar.NewWriter(&plain)
	member(f, archive, tar.Header{Name: JSONFile}, emptyReport)
	member(f, archive, tar.Header{Name: "vectors/recording.jsonl"}, "{}\n")
	f.Add(plain.Bytes())
	f.Add([]byte("text"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var b bytes.Buffer
		zip := gzip.NewWriter(&b)
		if _, err := zip.Write(in); err != nil {
			t.Fatalf("gzip.Writer.Write: %v", err)
		}
		if err := zip.Close(); err != nil {
			t.Fatalf("gzip.Writer.Close: %v", err)
		}
		for _, archive := range [][]byte{b.Bytes(), in} {
			r, files, err := ReadArchive(bytes.NewReader(archive))
			if err != nil {
				continue
			}
			if len(files) > maxFiles || r == nil {
				t.Errorf("ReadArchive(%q) = %v and %d files, want a report and at most %d", archive, r, len(files), maxFiles)
			}
			for name := range files {
				if !fileName.MatchString(name) {
					t.Errorf("ReadArchive(%q) has the file %q, want a simple name", archive, name)
				}
			}
		}
	})
}
