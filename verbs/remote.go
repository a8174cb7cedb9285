// SPDX-License-Identifier: Apache-2.0

package verbs

import "purerdma/provider"

// RemoteMemoryLen is the size in bytes of an encoded RemoteMemory.
const RemoteMemoryLen = provider.RemoteMemoryLen

// Remote returns the whole MR as its peers name it. Peers may do what the access rights of
// the MR allow. It panics if the MR is closed, as Slice does: the key may be that of other
// memory by now. After Reregister the MR may have another key.
func (m *MR) Remote() RemoteMemory {
	if m.closed.Load() {
		panic("verbs: remote memory of a closed MR")
	}
	return RemoteMemory{Addr: m.addr, Length: uint64(m.size), RKey: m.RKey()}
}

// Remote returns the bytes that the last Bind names, as peers name them by the key that
// the last Bind gave the window. The peer can use it when that request has completed. It
// is zero before the first Bind.
func (w *MW) Remote() RemoteMemory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remote
}
