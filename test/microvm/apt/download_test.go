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

// mirror serves content under any path through handle.
func mirror(t *testing.T, content []byte, handle func(w http.ResponseWriter, r *http.Request)) (d *downloader, p Package) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(s.Close)
	d = &downloader{dir: t.TempDir(), plain: true, other: func(context.Context, Package, string) error {
		return errors.New("left to apt")
	}}
	if err := os.Mkdir(filepath.Join(d.dir, "partial"), 0o755); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	return d, Package{URI: s.URL + "/p.deb", File: "p.deb", Size: int64(len(content)), Hash: fmt.Sprintf("SHA256:%x", sha256.Sum256(content))}
}

func someBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// serve answers like a mirror, without a modification time.
func serve(w http.ResponseWriter, r *http.Request, content []byte) {
	from := 0
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
		w.WriteHeader(http.StatusPartialContent)
	}
	w.Write(content[from:])
}

// TestDownloadResumes checks that a download does not fetch existing data again.
func TestDownloadResumes(t *testing.T) {
	content := someBytes(100_000)
	for name, tc := range map[string]struct {
		before []byte // existing content
		want   string // requested ranges
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
				t.Fatalf("os.WriteFile: %v", err)
			}
			if err := d.fetch(t.Context(), []Package{p}); err != nil {
				t.Fatalf("d.fetch: %v", err)
			}
			if got, err := os.ReadFile(final); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the file has %d bytes, %v, want the mirror's content", len(got), err)
			}
			if asked != tc.want {
				t.Errorf("requests for ranges %q, want %q", asked, tc.want)
			}
			asked = ""
			if err := d.fetch(t.Context(), []Package{p}); err != nil || asked != "" {
				t.Errorf("second fetch = ranges %q, %v, want none", asked, err)
			}
		})
	}
}

// TestDownloadInterrupted checks that an interrupted download keeps its data.
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
		t.Errorf("fetch = %v, want %v", err, context.Canceled)
	}
	if got, err := os.ReadFile(partial); err != nil || !bytes.Equal(got, content[:70_000]) {
		t.Errorf("partial file has %d bytes, %v, want the first 70000", len(got), err)
	}
	if n := d.arrived([]Package{p}); n != 70_000 {
		t.Errorf("arrived = %d bytes, want 70000", n)
	}
}

// TestDownloadCut checks that fetch requests the rest if a mirror ends the connection early.
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
		t.Errorf("fetch = %v, requested ranges %q, want the rest", err, asked)
	}
}

// TestDownloadFails checks that wrong content and errors of the mirror fail after a few
// attempts, and that apt is used afterwards.
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
				t.Errorf("fetch = %v after %d requests, want an error after the attempts and apt", err, requests)
			}
			final, partial := d.paths(p)
			if _, err := os.Stat(final); err == nil {
				t.Error("wrong content was stored under the final name")
			}
			if st, err := os.Stat(partial); err == nil && st.Size() > 0 {
				t.Error("wrong content was kept for the next download")
			}
		})
	}
}

// TestDownloadByApt checks that apt's downloads are verified.
func TestDownloadByApt(t *testing.T) {
	content := someBytes(1000)
	d, p := mirror(t, content, func(w http.ResponseWriter, r *http.Request) { t.Error("got a request through HTTP") })
	d.plain = false
	for _, tc := range []struct {
		gets []byte
		ok   bool
	}{{content[:999], false}, {make([]byte, 1000), false}, {content, true}} {
		d.other = func(_ context.Context, _ Package, file string) error { return os.WriteFile(file, tc.gets, 0o644) }
		if err := d.fetch(t.Context(), []Package{p}); (err == nil) != tc.ok {
			t.Errorf("fetch of %d bytes through apt = %v", len(tc.gets), err)
		}
	}
}

// TestDownloadInParallel checks that files are downloaded concurrently. Each download waits for
// the others.
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
		t.Errorf("d.fetch: %v", err)
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
			t.Errorf("transport matches %s: %v, want %v", line, got, want)
		}
	}
}
