// SPDX-License-Identifier: Apache-2.0

package verbs

import "purerdma/provider"

// RemoteMemoryLen is the size in bytes of an encoded RemoteMemory.
const RemoteMemoryLen = provider.RemoteMemoryLen

// Remote returns the whole MR in the form that peers use. The access rights of the MR limit their
// requests. It panics if the MR is closed, as Slice does, because its key may have been reused for
// other memory. After Reregister the MR may have another key.
func (m *MR) Remote() RemoteMemory {
	if m.closed.Load() {
		panic("verbs: remote memory of a closed MR")
	}
	return RemoteMemory{Addr: m.addr, Length: uint64(m.size), RKey: m.RKey()}
}

// Remote returns the bytes that the last Bind names, with the key that it assigned to the window.
// The peer can use it after that request has completed. It is zero before the first Bind.
func (w *MW) Remote() RemoteMemory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remote
}
