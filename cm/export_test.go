// SPDX-License-Identifier: Apache-2.0

package cm

import "time"

// ProbeWithin probes the peer as the keepalive does. The peer has the time d to acknowledge the probe.
func ProbeWithin(c *Conn, d time.Duration) { (&keepalive{conn: c}).probe(d) }

// Buffers returns the number of buffers that an ID keeps for Close.
func Buffers(id *ID) int {
	id.mu.Lock()
	defer id.mu.Unlock()
	return len(id.buffers)
}
