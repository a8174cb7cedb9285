// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// users counts, by kind, the objects that stand on another one, which does not
// close under them.
type users struct {
	mu     sync.Mutex
	count  map[string]int
	closed bool
}

// add counts one more; after close it returns net.ErrClosed.
func (u *users) add(kind string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return net.ErrClosed
	}
	if u.count == nil {
		u.count = make(map[string]int)
	}
	u.count[kind]++
	return nil
}

// drop counts one less.
func (u *users) drop(kind string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count[kind]--; u.count[kind] == 0 {
		delete(u.count, kind)
	}
}

// close runs destroy once. It returns an error that wraps EBUSY while there are
// users, and destroy's own; in both cases it may be called again.
func (u *users) close(destroy func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if len(u.count) > 0 {
		var kinds []string
		for kind, n := range u.count {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
		}
		sort.Strings(kinds)
		return fmt.Errorf("in use by %s: %w", strings.Join(kinds, ", "), syscall.EBUSY)
	}
	if err := destroy(); err != nil {
		return err
	}
	u.closed = true
	return nil
}
