// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/internal/apptest"
	"purerdma/internal/longtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestHTTP runs net/http on the fake kernels.
func TestHTTP(t *testing.T) {
	for _, tc := range httpCases {
		t.Run(tc.name, func(t *testing.T) { onFakes(t, tc.run) })
	}
}

// TestVMHTTP runs net/http between two devices.
func TestVMHTTP(t *testing.T) {
	vmtest.Need(t)
	for _, tc := range httpCases {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, inVM) })
	}
}

// httpCase is a version of HTTP with or without TLS 1.3.
type httpCase struct {
	name       string
	tls, http2 bool
	proto      string
	large      bool // has a body of 1 GiB in the long tests
}

var httpCases = []httpCase{
	{"HTTP1", false, false, "HTTP/1.1", true},
	{"HTTP1 over TLS", true, false, "HTTP/1.1", false},
	{"HTTP2 over TLS", true, true, "HTTP/2.0", true},
	{"HTTP2 without TLS", false, true, "HTTP/2.0", false},
}

// run sends concurrent requests, a large body in both directions, and requests that are cancelled.
func (tc *httpCase) run(t *testing.T, n apptest.Network) {
	var protocols http.Protocols
	protocols.SetHTTP1(!tc.http2)
	protocols.SetHTTP2(tc.http2 && tc.tls)
	protocols.SetUnencryptedHTTP2(tc.http2 && !tc.tls)
	n.Run(t, func(ln net.Listener) func() {
		ts := &httptest.Server{ // NewUnstartedServer would listen on TCP
			Listener: ln, EnableHTTP2: tc.http2,
			Config: &http.Server{Handler: &echoHandler{}, Protocols: &protocols},
		}
		if tc.tls {
			ts.StartTLS()
		} else {
			ts.Start()
		}
		return ts.Close
	}, func(d *stream.Dialer, address string) {
		x := exchanger{t: t, httpCase: tc, url: "http://" + address}
		tr := &http.Transport{DialContext: d.DialContext, Protocols: &protocols}
		if tc.tls {
			ts := httptest.NewTLSServer(nil) // for its certificate, which all servers of package httptest have
			tr.TLSClientConfig = ts.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			ts.Close()
			tr.TLSClientConfig.MinVersion = tls.VersionTLS13
			tr.TLSClientConfig.ServerName = "example.com" // the name in the certificate
			x.url = "https://" + address
		}
		defer tr.CloseIdleConnections()
		x.client = &http.Client{Transport: tr}
		x.exchange(n)
	})
}

// exchange is the client.
func (x *exchanger) exchange(n apptest.Network) {
	const each = 1 << 20
	large := int64(4 << 20)
	if x.large && longtest.Enabled() {
		large = 1 << 30
	}
	n.Check(x.t, 2*(4*each+large), func() {
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for j, size := range []int64{0, 1, 1000, each} {
					x.echo(uint64(i+10*j), size)
				}
			})
		}
		all.Wait()
		x.echo(1, large)
	})
	x.cancel("GET", "/never", nil)
	x.cancel("GET", "/endless", nil)
	x.cancel("POST", "/discard", endless{})
	x.echo(2, 1000)
	for end := time.Now().Add(streamconntest.Limit); ; time.Sleep(time.Millisecond) {
		running := x.running()
		if running == "0" {
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("handlers of cancelled requests that still run = %s, want 0", running)
		}
	}
}

// echoHandler answers a request with its body.
type echoHandler struct{ running atomic.Int32 }

func (h *echoHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/running" { // the number of the other handlers
		fmt.Fprint(w, h.running.Load())
		return
	}
	h.running.Add(1)
	defer h.running.Add(-1)
	switch r.URL.Path {
	case "/never": // no answer
		<-r.Context().Done()
	case "/endless":
		io.Copy(w, endless{})
	case "/discard":
		io.Copy(io.Discard, r.Body)
	default:
		http.NewResponseController(w).EnableFullDuplex() // HTTP/2 always is
		io.Copy(w, r.Body)
	}
}

// endless is an infinite body.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// exchanger sends requests to an echoHandler.
type exchanger struct {
	t *testing.T
	*httpCase
	client *http.Client
	url    string
}

// echo sends a body and checks the answer. It waits up to streamconntest.Limit for each MiB.
func (x *exchanger) echo(seed uint64, size int64) {
	ctx, cancel := context.WithTimeout(x.t.Context(), streamconntest.Limit*time.Duration(1+size>>20))
	defer cancel()
	sent, received := sha256.New(), sha256.New()
	req, err := http.NewRequestWithContext(ctx, "POST", x.url, io.TeeReader(streamconntest.Random(seed, size), sent))
	if err != nil {
		x.t.Errorf("http.NewRequestWithContext: %v", err)
		return
	}
	res, err := x.client.Do(req)
	if err != nil {
		x.t.Errorf("Do() of a body of %d bytes: %v", size, err)
		return
	}
	defer res.Body.Close()
	n, err := io.Copy(received, res.Body)
	if n != size || err != nil || !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
		x.t.Errorf("answer = %d bytes, %v, want the %d bytes of the request", n, err, size)
	}
	if res.Proto != x.proto || x.tls && res.TLS.Version != tls.VersionTLS13 {
		x.t.Errorf("protocol = %s, TLS %+v, want %s, TLS 1.3: %v", res.Proto, res.TLS, x.proto, x.tls)
	}
}

// running returns the number of handlers that run.
func (x *exchanger) running() string {
	x.t.Helper()
	res, err := x.client.Get(x.url + "/running")
	if err != nil {
		x.t.Fatalf("Get(/running): %v", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		x.t.Fatalf("Read of /running: %v", err)
	}
	return string(b)
}

// cancel cancels a request 50 ms after its start.
func (x *exchanger) cancel(method, path string, body io.Reader) {
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, x.url+path, body)
	if err != nil {
		x.t.Errorf("http.NewRequestWithContext: %v", err)
		return
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	res, err := x.client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		x.t.Errorf("%s of %s with a cancelled context = %v, want %v", method, path, err, context.Canceled)
	}
}
