// SPDX-License-Identifier: Apache-2.0

package cm

// Buffers returns the number of buffers that an ID keeps for Close.
func Buffers(id *ID) int {
	id.mu.Lock()
	defer id.mu.Unlock()
	return len(id.buffers)
}
