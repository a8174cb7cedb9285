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
	"time"
)

var sample = Report{
	Version: "rdmahw v0.1.0", Date: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Peer: "loopback",
	Machine: Machine{Kind: Model, Device: "mlx5_0", Driver: "mlx5", Kernel: "6.1", Arch: "amd64", PageSize: 4096, CPUs: 2},
	Results: []Result{
		{ID: "send-sizes", Title: "SEND of each size", Status: Pass, Seconds: 1.5},
		{ID: "atomics", Title: "atomics", Status: Fail, Reason: "wrong value\nstacks", Counters: map[string]int64{"rnr_nak_retry_err": 1}},
		{ID: "ud", Title: "datagrams", Status: Skip, Reason: "no UD"},
	},
}

// TestArchive reads a written archive.
func TestArchive(t *testing.T) {
	var b bytes.Buffer
	if err := sample.WriteArchive(&b, map[string][]byte{"log/atomics.txt": []byte("a log")}); err != nil {
		t.Fatalf("WriteArchive: %v", err)
	}
	zip, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatalf("io.ReadAll: %v", err)
		}
		files[h.Name] = string(data)
	}
	got, err := Read(strings.NewReader(files[JSONFile]))
	if err != nil || !reflect.DeepEqual(*got, sample) {
		t.Errorf("Read(%s) = %+v, %v, want %+v", JSONFile, got, err, sample)
	}
	if files[TextFile] != sample.Text() || files["log/atomics.txt"] != "a log" || len(files) != 3 {
		t.Errorf("WriteArchive wrote %q, want the report twice and the log", files)
	}
}

// TestText checks that the page of text names the kind of the device and each result.
func TestText(t *testing.T) {
	text := sample.Text()
	for _, want := range []string{"model mlx5_0", "PASS    send-sizes", "atomics: wrong value\n", "1 passed, 1 failed, 1 skipped, 0 unknown (model)"} {
		if !strings.Contains(text, want) {
			t.Errorf("Text() = %s, want %q in it", text, want)
		}
	}
	if strings.Contains(text, "card") || strings.Contains(text, "stacks") {
		t.Errorf("Text() = %s, want no card and one line for each result", text)
	}
}

// TestReadRefuses checks that Read refuses other files.
func TestReadRefuses(t *testing.T) {
	for _, in := range []string{"", "{}", `{"machine":{"kind":"other"}}`, `{"unknown":1}`} {
		if r, err := Read(strings.NewReader(in)); err == nil {
			t.Errorf("Read(%s) = %+v, want an error", in, r)
		}
	}
}
