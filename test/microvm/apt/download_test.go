// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// mirror serves one content under any path, in the way that handle chooses.
func mirror(t *testing.T, content []byte, handle func(w http.ResponseWriter, r *http.Request)) (d *downloader, p Package) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(s.Close)
	d = &downloader{dir: t.TempDir(), plain: true, other: func(context.Context, Package, string) error {
		return errors.New("left to apt")
	}}
	if err := os.Mkdir(filepath.Join(d.dir, "partial"), 0o755); err != nil {
		t.Fatal(err)
	}
	return d, Package{URI: s.URL + "/p.deb", File: "p.deb", Size: int64(len(content)), Hash: fmt.Sprintf("SHA256:%x", sha256.Sum256(content))}
}

func someBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// serve answers as a mirror does, without a time of modification.
func serve(w http.ResponseWriter, r *http.Request, content []byte) {
	from := 0
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
		w.WriteHeader(http.StatusPartialContent)
	}
	w.Write(content[from:])
}

// TestDownloadResumes: what an interrupted download left is not fetched again.
func TestDownloadResumes(t *testing.T) {
	content := someBytes(100_000)
	for name, tc := range map[string]struct {
		before []byte // what is there
		want   string // the ranges asked for
	}{
		"nothing":            {nil, " "},
		"a part":             {content[:60_000], " bytes=60000-"},
		"all":                {content, ""},
		"a wrong part":       {make([]byte, 60_000), " bytes=60000- "},
		"more than there is": {make([]byte, 100_001), " "},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			d, p := mirror(t, content, func(w http.ResponseWriter, r *http.Request) {
				asked += " " + r.Header.Get("Range")
				serve(w, r, content)
			})
			final, partial := d.paths(p)
			if err := os.WriteFile(partial, tc.before, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := d.fetch(t.Context(), []Package{p}); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(final); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the file has %d bytes, not those of the mirror; %v", len(got), err)
			}
			if asked != tc.want {
				t.Errorf("requests for ranges %q, want %q", asked, tc.want)
			}
			asked = ""
			if err := d.fetch(t.Context(), []Package{p}); err != nil || asked != "" {
				t.Errorf("fetched again: ranges %q, %v", asked, err)
			}
		})
	}
}

// TestDownloadInterrupted: a download that a signal ends keeps what has arrived.
func TestDownloadInterrupted(t *testing.T) {
	content := someBytes(100_000)
	ctx, cancel := context.WithCancel(t.Context())
	d, p := mirror(t, content, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write(content[:70_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	_, partial := d.paths(p)
	go func() {
		for ; ; time.Sleep(time.Millisecond) {
			if st, err := os.Stat(partial); err == nil && st.Size() == 70_000 {
				cancel()
				return
			}
		}
	}()
	if err := d.fetch(ctx, []Package{p}); !errors.Is(err, context.Canceled) {
		t.Errorf("fetch: %v, want %v", err, context.Canceled)
	}
	if got, err := os.ReadFile(partial); err != nil || !bytes.Equal(got, content[:70_000]) {
		t.Errorf("%d bytes are left, %v", len(got), err)
	}
	if n := d.arrived([]Package{p}); n != 70_000 {
		t.Errorf("arrived: %d bytes", n)
	}
}

// TestDownloadCut: a mirror that ends connections early is asked for the rest.
func TestDownloadCut(t *testing.T) {
	content := someBytes(100_000)
	asked := ""
	d, p := mirror(t, content, func(w http.ResponseWriter, r *http.Request) {
		asked += " " + r.Header.Get("Range")
		if r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.Write(content[:50_000])
			return
		}
		serve(w, r, content)
	})
	if err := d.fetch(t.Context(), []Package{p}); err != nil || asked != "  bytes=50000-" {
		t.Errorf("fetch: %v; requests for ranges %q", err, asked)
	}
}

// TestDownloadFails: a mirror that has something else, or an error, fails after a few
// attempts, and apt has a try.
func TestDownloadFails(t *testing.T) {
	for name, handle := range map[string]func(w http.ResponseWriter, r *http.Request){
		"not found": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"other":     func(w http.ResponseWriter, r *http.Request) { serve(w, r, make([]byte, 1000)) },
		"more":      func(w http.ResponseWriter, r *http.Request) { serve(w, r, make([]byte, 2000)) },
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			d, p := mirror(t, someBytes(1000), func(w http.ResponseWriter, r *http.Request) { requests++; handle(w, r) })
			err := d.fetch(t.Context(), []Package{p})
			if err == nil || !strings.Contains(err.Error(), p.URI) || !strings.Contains(err.Error(), "left to apt") || requests != attempts {
				t.Errorf("fetch: %v, after %d requests", err, requests)
			}
			final, partial := d.paths(p)
			if _, err := os.Stat(final); err == nil {
				t.Error("a file with the wrong content has the final name")
			}
			if st, err := os.Stat(partial); err == nil && st.Size() > 0 {
				t.Error("wrong content is left for the next download")
			}
		})
	}
}

// TestDownloadByApt: what apt alone can fetch is checked, too.
func TestDownloadByApt(t *testing.T) {
	content := someBytes(1000)
	d, p := mirror(t, content, func(w http.ResponseWriter, r *http.Request) { t.Error("a request by HTTP") })
	d.plain = false
	for _, tc := range []struct {
		gets []byte
		ok   bool
	}{{content[:999], false}, {make([]byte, 1000), false}, {content, true}} {
		d.other = func(_ context.Context, _ Package, file string) error { return os.WriteFile(file, tc.gets, 0o644) }
		if err := d.fetch(t.Context(), []Package{p}); (err == nil) != tc.ok {
			t.Errorf("with %d bytes of apt's: %v", len(tc.gets), err)
		}
	}
}

// TestDownloadInParallel: files come side by side. Each waits for the others.
func TestDownloadInParallel(t *testing.T) {
	content := someBytes(1000)
	var barrier sync.WaitGroup
	barrier.Add(connections)
	d, p := mirror(t, content, func(w http.ResponseWriter, r *http.Request) {
		barrier.Done()
		barrier.Wait()
		io.Copy(w, bytes.NewReader(content))
	})
	var ps []Package
	for i := range connections {
		q := p
		q.File = fmt.Sprint(i, ".deb")
		ps = append(ps, q)
	}
	if err := d.fetch(t.Context(), ps); err != nil {
		t.Error(err)
	}
}

func TestTransport(t *testing.T) {
	for line, want := range map[string]bool{
		`Acquire::http::Proxy "http://proxy:3128";`:        true,
		`Acquire::http::Proxy::mirror "http://p:1";`:       true,
		`Acquire::https::mirror::CaInfo "/etc/ca.pem";`:    true,
		`Acquire::http::Proxy-Auto-Detect "/usr/bin/x";`:   true,
		`Acquire::http::Proxy "";`:                         false,
		`Acquire::http::Timeout "30";`:                     false,
		`Acquire::https "";`:                               false,
		`Binary::apt::Acquire::http::Pipeline-Depth "10";`: false,
	} {
		if got := transport.MatchString("APT \"\";\n" + line + "\n"); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}
