// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"purerdma/test/microvm/progress"
)

// apt fetches the files of one mirror one after the other. It resumes a file only if the mirror
// sends a modification time. This package therefore downloads packages itself, with the
// addresses and checksums from apt's signed lists. It leaves other transports than plain HTTP
// to apt, such as a mirror behind a proxy of apt's configuration.

const (
	connections = 4 // concurrent downloads
	attempts    = 3 // attempts for each file, as apt's Acquire::Retries
	// stall is the time limit for data from a mirror, as apt's Acquire::http::Timeout.
	stall = 30 * time.Second
)

// A downloader fetches packages into a directory. Its subdirectory "partial" contains
// incomplete files, which the next download resumes.
type downloader struct {
	dir string
	// other fetches a URI into a file if HTTP fails.
	other func(ctx context.Context, p Package, file string) error
	plain bool // whether HTTP may be used
}

// fetch downloads the packages that are not in the directory.
func (d *downloader) fetch(ctx context.Context, ps []Package) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan Package)
	errs := make(chan error, connections)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for p := range work {
				if err := d.get(ctx, p); err != nil {
					errs <- fmt.Errorf("downloading %s: %w", p.URI, err)
					cancel() // stop the other downloads
					return
				}
			}
		})
	}
feed:
	for _, p := range ps {
		select {
		case work <- p:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	wg.Wait()
	select {
	case err := <-errs: // the first error
		return err
	default:
		return ctx.Err()
	}
}

// get downloads one package.
func (d *downloader) get(ctx context.Context, p Package) error {
	final, partial := d.paths(p)
	if st, err := os.Stat(final); err == nil && st.Size() == p.Size {
		return nil // its checksum was verified before it was renamed
	}
	var err error
	if u, perr := url.Parse(p.URI); perr == nil && d.plain && (u.Scheme == "http" || u.Scheme == "https") {
		for range attempts {
			if err = d.http(ctx, p, partial); err == nil || ctx.Err() != nil {
				break
			}
		}
	} else {
		err = errors.ErrUnsupported
	}
	if err != nil && ctx.Err() == nil {
		if err = d.other(ctx, p, partial); err == nil {
			err = p.check(partial)
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(partial, final)
}

func (d *downloader) paths(p Package) (final, partial string) {
	return filepath.Join(d.dir, p.File), filepath.Join(d.dir, "partial", p.File)
}

// arrived returns the number of bytes of the packages in the directory.
func (d *downloader) arrived(ps []Package) (n int64) {
	for _, p := range ps {
		final, partial := d.paths(p)
		for _, name := range []string{final, partial} {
			if st, err := os.Stat(name); err == nil {
				n += st.Size()
				break
			}
		}
	}
	return n
}

// http downloads the rest of a package into file and verifies the whole file.
func (d *downloader) http(ctx context.Context, p Package, file string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have > p.Size {
		have = 0
	}
	if have < p.Size || p.Size == 0 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URI, nil)
		if err != nil {
			return err
		}
		if have > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		}
		timer := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing arrived for %v", stall)) })
		defer timer.Stop()
		resp, err := client.Do(req)
		if err != nil {
			return cause(ctx, err)
		}
		defer resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusOK:
			have = 0
		case resp.StatusCode == http.StatusPartialContent && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
		case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
			return errors.Join(errors.New("the mirror does not support resuming"), f.Truncate(0))
		default:
			return fmt.Errorf("HTTP status %s", resp.Status)
		}
		if err := f.Truncate(have); err != nil {
			return err
		}
		if _, err := f.Seek(have, io.SeekStart); err != nil {
			return err
		}
		body := readerFunc(func(b []byte) (int, error) {
			n, err := resp.Body.Read(b)
			timer.Reset(stall)
			return n, err
		})
		if _, err := io.Copy(f, io.LimitReader(body, p.Size-have+1)); err != nil {
			return cause(ctx, err)
		}
	}
	err = p.check(file)
	if st, serr := f.Stat(); err != nil && serr == nil && st.Size() >= p.Size {
		return errors.Join(err, f.Truncate(0)) // the content is wrong, so start again
	}
	return err
}

// client has no time limit for a whole download. Like apt, it uses proxies from the
// environment.
var client = &http.Client{Transport: &http.Transport{
	Proxy:               http.ProxyFromEnvironment,
	DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
	TLSHandshakeTimeout: 10 * time.Second,
	MaxIdleConnsPerHost: connections,
}}

// cause returns the cause of ctx's end, or else err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// check verifies the size and the checksum of a package's file.
func (p Package) check(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	switch got := fmt.Sprintf("SHA256:%x", h.Sum(nil)); {
	case err != nil:
		return err
	case n != p.Size:
		return fmt.Errorf("got %d of %d bytes", n, p.Size)
	case got != p.Hash:
		return fmt.Errorf("checksum %s, want %s", got, p.Hash)
	}
	return nil
}

// download downloads the packages into the state's archives and returns the paths of the files.
// It does not repeat completed downloads.
func (a *Apt) download(ctx context.Context, names []string, ps []Package) ([]string, error) {
	d := downloader{dir: filepath.Join(a.dir, "cache/archives"), other: a.helper, plain: !a.ownTransport(ctx)}
	var size int64
	paths := make([]string, len(ps))
	for i, p := range ps {
		size += p.Size
		paths[i], _ = d.paths(p)
	}
	what := "downloading " + strings.Join(names, ", ")
	resumed := ""
	if n := d.arrived(ps); n > 0 {
		resumed = fmt.Sprintf(", %.0f MB of them already downloaded", float64(n)/1e6)
	}
	fmt.Fprintf(a.progress, "rdmavm: %s: %d packages, %.0f MB%s\n", what, len(ps), float64(size)/1e6, resumed)
	stop := progress.Watch(a.progress, what, func() int64 { return d.arrived(ps) }, size)
	defer stop()
	return paths, d.fetch(ctx, ps)
}

// helper downloads a package with apt.
func (a *Apt) helper(ctx context.Context, p Package, file string) error {
	return a.run(ctx, "/usr/lib/apt/apt-helper", "download-file", p.URI, file, p.Hash)
}

// transport matches settings that only apt's own programs use, such as proxies and
// certificates.
var transport = regexp.MustCompile(`(?im)^Acquire::https?::(.*::)?(Proxy|Proxy-Auto-Detect|ProxyAutoDetect|CaInfo|CaPath|SslCert|SslKey|IssuerCert|Verify-Peer|Verify-Host)\b.*"[^"]+";$`)

// ownTransport reports whether apt must download packages itself.
func (a *Apt) ownTransport(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "apt-config", "-c", filepath.Join(a.dir, "apt.conf"), "dump").Output()
	return err != nil || transport.Match(out)
}
