// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"purerdma/verbs"
)

func TestLog(t *testing.T) {
	var b bytes.Buffer
	k := newFakeKernel()
	host := &verbs.Host{Log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	ch := newEventChannel(newUcma(k), host)
	t.Cleanup(func() { ch.Close() })
	id := newFakeID(t, ch)
	id.state = StateConnecting
	k.queue(id.kid, EventRouteResolved, 0) // not logged at this level
	k.queue(id.kid, EventUnreachable, -int32(syscall.ETIMEDOUT))
	mustNext(t, ch)
	mustNext(t, ch)
	out := b.String()
	for _, want := range []string{"msg=RDMA_CM_EVENT_UNREACHABLE", "id=\"" + id.String() + "\"", "state=failed", "status=-110", "timed out"} {
		if !strings.Contains(out, want) {
			t.Errorf("log = %s, want the text %s", out, want)
		}
	}
	if strings.Count(out, "\n") != 1 {
		t.Errorf("log = %s, want one line", out)
	}
}
