// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
)

var errInFunction = fmt.Errorf("the send queue is full, and a function of a completion or message must not wait: %w", syscall.EAGAIN)

// inFunction reports whether a function that doWork calls has called the caller. Such a function stops the
// goroutine that polls, so the completion that it waits for would never arrive.
func (h *hub) inFunction() bool {
	if h.functions.Load() == 0 {
		return false
	}
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.HasSuffix(f.Function, "inflight.(*hub).callFunctions") {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
