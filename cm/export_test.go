// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"testing"
	"time"
)

// SetMinAnswer sets the least time of a peer to acknowledge a probe, for connections that the test makes.
func SetMinAnswer(t *testing.T, d time.Duration) {
	was := minAnswer
	minAnswer = d
	t.Cleanup(func() { minAnswer = was })
}

// Buffers returns the number of buffers that an ID keeps for Close.
func Buffers(id *ID) int {
	id.mu.Lock()
	defer id.mu.Unlock()
	return len(id.buffers)
}
