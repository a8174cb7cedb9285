// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"

	"purerdma/internal/vmtest"
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
			whenRead(t, func(ctx context.Context) error {
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
