// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestOptionsOutOfRange checks that Listen and Dial refuse options out of range, and that the error
// has the limit.
func TestOptionsOutOfRange(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		for _, tc := range []struct {
			options msg.Options
			want    string
		}{
			{msg.Options{Slot: 255}, "want 256 to 1048576"},
			{msg.Options{Slot: 1<<20 + 1}, "want 256 to 1048576"},
			{msg.Options{Window: -1}, "1 to 4096"},
			{msg.Options{Calls: 4097}, "1 to 4096"},
			{msg.Options{Slot: 1 << 20}, "273678336 bytes of receives, want at most 50331648"},
			{msg.Options{Slot: 1 << 20, Window: 40, Calls: 4}, "51380224 bytes of receives"},
			{msg.Options{Slot: 1 << 20, Window: 4096, Calls: 4096}, "8595177472 bytes of receives"}, // over 32 bits
		} {
			lc := msg.ListenConfig{Options: tc.options, CM: cm.ListenConfig{Host: k.Host()}}
			ln, err := lc.Listen(t.Context(), "tcp", server)
			if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Listen(%+v) = %v, want EINVAL with %q", tc.options, err, tc.want)
			}
			if err == nil {
				ln.Close()
			}
			d := msg.Dialer{Options: tc.options, CM: cm.Dialer{Host: k.Host()}}
			c, err := d.Dial(t.Context(), "tcp", server)
			if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Dial(%+v) = %v, want EINVAL with %q", tc.options, err, tc.want)
			}
			if err == nil {
				c.Close()
			}
		}
	})
}

// TestLargestReceives connects with receives that have just the largest size.
func TestLargestReceives(t *testing.T) {
	largest := msg.Options{Slot: 1 << 20, Window: 40, Calls: 3}
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{largest, largest})
		data := make([]byte, c.MaxLen())
		if err := c.Send(streamconntest.Deadline(t), 1, data); err != nil {
			t.Fatalf("Send(%d bytes) = %v", len(data), err)
		}
		m, err := s.Receive(streamconntest.Deadline(t))
		if err != nil {
			t.Fatalf("Receive() = %v", err)
		}
		if len(m.Bytes()) != len(data) {
			t.Errorf("Receive() = %d bytes, want %d", len(m.Bytes()), len(data))
		}
		m.Free()
	})
}

// TestRemoteErrorText checks that a reason of a peer is bounded, and quoted if it is not printable.
func TestRemoteErrorText(t *testing.T) {
	long := strings.Repeat("x", 256)
	for reason, want := range map[string]string{
		"":                "the peer has not answered the request",
		"no such key":     "the peer reports: no such key",
		"kein Schlüssel":  "the peer reports: kein Schlüssel",
		"\x1b[2J\nok":     `the peer reports: "\x1b[2J\nok"`,
		"\xff":            `the peer reports: "\xff"`,
		long:              "the peer reports: " + long,
		long + "and more": "the peer reports: " + long + "...",
		long[1:] + "üü":   "the peer reports: " + long[1:] + "...", // 256 bytes end within the first ü
	} {
		if got := (&msg.RemoteError{Reason: reason}).Error(); got != want {
			t.Errorf("Error() of %q = %q, want %q", reason, got, want)
		}
	}
}
