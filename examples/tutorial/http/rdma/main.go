// SPDX-License-Identifier: Apache-2.0

// Web serves a page over RDMA, and fetches it. It is the second program of the tutorial "HTTP over RDMA".
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"

	"purerdma/cm"
	"purerdma/stream"
)

const address = "10.8.0.1:8080"

// size is the length of the page in bytes.
const size = 1 << 20

func main() {
	if len(os.Args) > 1 && os.Args[1] == "client" {
		if err := fetch(context.Background(), os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	ln, err := listen(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(serve(ln))
}

// listen returns the server's listener.
func listen(ctx context.Context) (net.Listener, error) {
	return stream.Listen(ctx, "tcp", address)
}

// serve answers requests until the listener is closed.
func serve(ln net.Listener) error { return http.Serve(ln, http.HandlerFunc(sendPage)) }

// sendPage answers a request with the page.
func sendPage(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) }

// newTransport returns the client's transport.
func newTransport() *http.Transport {
	local := cm.AddrFrom(netip.MustParseAddrPort("10.8.1.2:0"))
	dialer := &stream.Dialer{CM: cm.Dialer{LocalAddr: local}}
	return &http.Transport{DialContext: dialer.DialContext}
}

// fetch gets the page and prints its length.
func fetch(ctx context.Context, w io.Writer) error {
	transport := newTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+address, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %s, %d bytes\n", res.Proto, res.Status, n)
	return err
}
