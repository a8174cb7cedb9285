// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

// TestPreloadHTTP serves HTTP by net/http to ordinary C programs.
func TestPreloadHTTP(t *testing.T) {
	path := paths(t)[0]
	for name, args := range map[string][]string{
		"curl": {"-sS"},
		"wget": {"-q", "-O", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			vmtest.NoLeaks(t)
			mustTransfer(t, func(ctx context.Context) error {
				ln := listenRsocket(ctx, t, path)
				want := make([]byte, preloadSize)
				rand.Read(want)
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(want) })}
				go server.Serve(ln)
				defer server.Close()
				return startPreloaded(ctx, t, false, name, append(args, "http://"+ln.Addr().String()+"/")...).wait(want)
			})
		})
	}
}

// preloadedServers are HTTP servers that run with librspreload.
var preloadedServers = []struct {
	name   string
	family int    // index of the path
	user   uint32 // number of the user
	args   func(t *testing.T, server, port, dir string) []string
}{
	// Its sockets have IPv6. For an IPv4 address it binds the IPv4-mapped address, which the kernel's rdma_cm refuses.
	{"weborf", 1, 0, func(_ *testing.T, server, port, dir string) []string {
		return []string{"-i", server, "-p", port, "-b", dir}
	}},
	// As root it sets its user again. Then the kernel refuses commands on the file descriptors that it has opened before
	// (ib_safe_file_access).
	{"merecat", 0, unprivileged, func(t *testing.T, server, port, dir string) []string {
		conf := writeFile(t, filepath.Join(dir, "merecat.conf"), "hostname = %q\n", server)
		return []string{"-n", "-f", conf, "-p", port, "-P", conf + ".pid", dir}
	}},
}

// unprivileged is the number of a user without rights.
const unprivileged = 65534

// TestPreloadHTTPServer fetches a file by net/http from ordinary C servers, on several connections at a time.
func TestPreloadHTTPServer(t *testing.T) {
	vmtest.Need(t)
	for _, s := range preloadedServers {
		t.Run(s.name, func(t *testing.T) {
			vmtest.NoLeaks(t)
			vmtest.AnyMemory(t)
			path, dir, want := paths(t)[s.family], publicDir(t), make([]byte, preloadSize)
			rand.Read(want)
			writeFile(t, filepath.Join(dir, "file"), "%s", want)
			mustTransfer(t, func(ctx context.Context) error {
				port := newPort()
				cmd := preloadedCommand(ctx, t, s.name, s.args(t, path.Server, port, dir)...)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.user, Gid: s.user}}
				defer servePreloaded(t, cmd)()
				transport := &http.Transport{DialContext: preloadDialer(path)}
				defer transport.CloseIdleConnections()
				faults := make([]error, 3)
				var all sync.WaitGroup
				for i := range faults {
					all.Go(func() {
						for range 2 {
							got, err := requestHTTP(ctx, transport, "GET", "http://"+net.JoinHostPort(path.Server, port)+"/file", nil)
							switch err := wholeAnswer(got, want, err); {
							case errors.Is(err, errOvertaken), errors.Is(err, errLost):
								faults[i] = err
							case err != nil:
								t.Errorf("GET: %v", err)
							}
						}
					})
				}
				all.Wait()
				return errors.Join(faults...)
			})
		})
	}
}

// TestPreloadProxy sends requests by net/http through an ordinary C proxy to a server of net/http. The proxy accepts
// connections of package rsocket, and makes connections to it. The proxy is on the second host, because mustTransfer
// watches connections to the first host. A request with TLS makes the proxy a tunnel.
func TestPreloadProxy(t *testing.T) {
	ends := paths(t)[0]
	path := pairing.Path{Server: ends.Client, Client: ends.Server} // to the proxy
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	clientConfig := certificate.Client().Transport.(*http.Transport).TLSClientConfig
	clientConfig.ServerName = "example.com" // the name in the certificate
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			vmtest.NoLeaks(t)
			mustTransfer(t, func(ctx context.Context) error {
				ln := listenRsocket(ctx, t, ends)
				origin := &http.Server{Handler: http.HandlerFunc(echoHTTP), TLSConfig: &tls.Config{Certificates: certificate.TLS.Certificates}}
				if scheme == "https" {
					go origin.ServeTLS(ln, "", "")
				} else {
					go origin.Serve(ln)
				}
				defer origin.Close()
				port := newPort()
				conf := writeFile(t, filepath.Join(t.TempDir(), "tinyproxy.conf"), "Listen %s\nPort %s\nBind %s\nTimeout 60\n", path.Server, port, path.Server)
				defer servePreloaded(t, preloadedCommand(ctx, t, "tinyproxy", "-d", "-c", conf))()
				transport := &http.Transport{
					DialContext:     preloadDialer(path),
					Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: net.JoinHostPort(path.Server, port)}),
					TLSClientConfig: clientConfig,
				}
				defer transport.CloseIdleConnections()
				body := make([]byte, preloadSize)
				rand.Read(body)
				got, err := requestHTTP(ctx, transport, "POST", scheme+"://"+ln.Addr().String()+"/", body)
				return wholeAnswer(got, body, err)
			})
		})
	}
}

// echoHTTP answers a request with its body, after it has read all of it.
func echoHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Write(body)
}

// errLost reports an answer whose end siw lost, because the server closed the connection after it
// (docs/reference/driver-faults.md).
var errLost = errors.New("siw has lost the end of the answer before the end of the connection")

// wholeAnswer checks the body of an answer, with the error of the request.
func wholeAnswer(got, want []byte, err error) error {
	switch {
	case vmtest.Driver() == "siw" && errors.Is(err, syscall.ECONNRESET) && bytes.HasPrefix(want, got):
		return fmt.Errorf("%w\n%w", errLost, err)
	case err == nil && !bytes.Equal(got, want):
		return fmt.Errorf("the body has %d bytes and is not equal to the %d bytes that were expected", len(got), len(want))
	default:
		return err
	}
}

// requestHTTP sends a request and returns the body of the answer.
func requestHTTP(ctx context.Context, transport *http.Transport, method, address string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(res.Body)
	err = errors.Join(err, res.Body.Close())
	if res.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(res.Status))
	}
	return got, err
}

// servePreloaded starts a server. stop kills it.
func servePreloaded(t *testing.T, cmd *exec.Cmd) (stop func()) {
	t.Helper()
	p := startCommand(t, cmd, nil)
	return func() {
		cmd.Process.Kill()
		<-p.ended
		t.Logf("%s printed:\n%s%s", cmd.Path, &p.stdout, &p.stderr)
	}
}

// publicDir returns a new directory that all users may use. It is removed at the end of the test.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "")
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	return dir
}

// writeFile writes a file that all users may read, and returns its name.
func writeFile(t *testing.T, name, format string, args ...any) string {
	t.Helper()
	if err := os.WriteFile(name, fmt.Appendf(nil, format, args...), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return name
}
