// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"fmt"
	"slices"
	"sync"
	"syscall"

	"purerdma/provider"
)

// windows tracks which windows of type 2 are bound, because the kernel does not check that before
// it invalidates one. For an unbound window, rxe_do_invalidate_mw reads the QP and the memory
// region through null pointers. This happens in a softirq and crashes the kernel.
type windows struct {
	mu          sync.Mutex
	bound       map[uint32]uint32 // the key of each window by its index; 0 while it is not bound
	invalidated map[uint32]uint32 // the last key of each window that a peer has invalidated, by its index; 0 for none
}

// index returns the part of a key that does not change when the window is bound.
func index(key uint32) uint32 { return key >> 8 }

// add tracks a new window, which is not bound.
func (w *windows) add(key uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bound == nil {
		w.bound, w.invalidated = map[uint32]uint32{}, map[uint32]uint32{}
	}
	w.bound[index(key)], w.invalidated[index(key)] = 0, 0
}

// remove ends the tracking of a window. The returned function resumes it.
func (w *windows) remove(key uint32) (undo func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bound := w.bound[index(key)]
	delete(w.bound, index(key))
	delete(w.invalidated, index(key))
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bound[index(key)], w.invalidated[index(key)] = bound, 0
	}
}

// A windowChange describes what a built request does to a window.
type windowChange struct {
	index      uint32
	was, bound uint32 // the key before and after; 0 while the window is not bound
}

// bind records that a built request binds the window to a new key. It reports false for a window of
// another context.
func (w *windows) bind(key uint32) (windowChange, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, ok := w.bound[index(key)]
	if ok {
		w.bound[index(key)] = key
		if w.invalidated[index(key)] == key { // keys come again after 256 binds
			w.invalidated[index(key)] = 0
		}
	}
	return windowChange{index(key), was, key}, ok
}

// undo reverts the changes of requests that the kernel never gets, the last one first. It skips
// windows that have changed since, and does not bind a window to a key that a peer has invalidated
// in the meantime.
func (w *windows) undo(changes []windowChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range slices.Backward(changes) {
		if bound, ok := w.bound[c.index]; ok && bound == c.bound {
			if w.bound[c.index] = c.was; c.was == w.invalidated[c.index] {
				w.bound[c.index] = 0
			}
		}
	}
}

// unbind records that a peer has invalidated the key.
func (w *windows) unbind(key uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bound, ok := w.bound[index(key)]
	if !ok {
		return
	}
	w.invalidated[index(key)] = key
	if bound == key {
		w.bound[index(key)] = 0
	}
}

// invalidate records that a built request invalidates the key. It refuses the key of an unbound
// window. It reports false for keys that are not of this context's windows, which the kernel
// judges.
func (w *windows) invalidate(key uint32) (windowChange, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bound, ok := w.bound[index(key)]
	if !ok {
		return windowChange{}, false, nil
	}
	if bound != key {
		return windowChange{}, false, fmt.Errorf("%v of key %#x: the window is not bound to it: %w", provider.OpLocalInv, key, syscall.EINVAL)
	}
	w.bound[index(key)] = 0
	return windowChange{index(key), key, 0}, true, nil
}

// AllocMW allocates a memory window.
func (c *Context) AllocMW(pd provider.PD, typ provider.MWType) (provider.MW, error) {
	w, err := c.KernelObjects.AllocMW(pd, typ)
	if err != nil || typ != provider.MWType2 {
		return w, err
	}
	c.windows.add(w.RKey())
	return &window{w, &c.windows}, nil
}

// window is a window of type 2.
type window struct {
	provider.MW
	windows *windows
}

// Close deallocates the window. The kernel may reuse its index as soon as the command has started,
// so the tracking ends before.
func (w *window) Close() error {
	undo := w.windows.remove(w.RKey())
	err := w.MW.Close()
	if err != nil {
		undo()
	}
	return err
}
