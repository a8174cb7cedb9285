// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync"
	"syscall"
)

// remoteAccess has the rights that peers use.
const remoteAccess = RemoteRead | RemoteWrite | RemoteAtomic | FlushGlobal | FlushPersistent

// remoteRights counts the memory regions of a PD with rights for peers, and its windows of type 1.
type remoteRights struct {
	mu      sync.Mutex
	count   int
	refused bool
}

// add counts memory with these rights. It returns an error that wraps EPERM if the PD refuses them.
func (r *remoteRights) add(access Access) error {
	access &= remoteAccess
	if access == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused {
		return fmt.Errorf("%v: the PD refuses remote access: %w", access, syscall.EPERM)
	}
	r.count++
	return nil
}

// drop is the inverse of a successful add.
func (r *remoteRights) drop(access Access) {
	if access&remoteAccess == 0 {
		return
	}
	r.mu.Lock()
	r.count--
	r.mu.Unlock()
}

// addWindow is add for a memory window. Any QP of the PD can be used with a window of type 1.
func (r *remoteRights) addWindow(typ MWType) error {
	if typ != MWType1 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused {
		return fmt.Errorf("type 1: the PD refuses remote access: %w", syscall.EPERM)
	}
	r.count++
	return nil
}

func (r *remoteRights) dropWindow(typ MWType) {
	if typ != MWType1 {
		return
	}
	r.mu.Lock()
	r.count--
	r.mu.Unlock()
}

func (r *remoteRights) refuse() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count > 0 {
		return fmt.Errorf("%d memory regions or windows with rights for peers: %w", r.count, syscall.EBUSY)
	}
	r.refused = true
	return nil
}

// RefuseRemote makes the PD refuse memory that peers can reach by a key with any QP of the PD. It is
// for a PD whose QPs belong to connections of several peers, such as the QPs of an SRQ. It cannot be
// undone. From then on errors that wrap EPERM are returned for
//
//   - memory regions with RemoteRead, RemoteWrite, RemoteAtomic, FlushGlobal or FlushPersistent,
//     whether they are registered or Reregister moves or changes them, and
//   - memory windows of type 1.
//
// Windows of type 2, and memory with MWBind for them, stay allowed. A peer reaches such a window
// only through the QP that has bound it. rxe checks that (rxe_lookup_mw), and mlx5 binds the key to
// the number of the QP. rxe does not check the bounds of a window (docs/reference/driver-faults.md).
//
// QPs may still allow remote access, because without a key it has no effect. Keys that a program
// makes with package uverbs are not seen. If the PD has such memory already, the error wraps EBUSY.
// The PD of Device.DefaultPD cannot be restricted, because others share it. The error then wraps
// EPERM.
func (p *PD) RefuseRemote() error {
	const op = "refuse remote access on a PD of"
	if p.deflt {
		return p.dev.opError(op, fmt.Errorf("the default PD is shared: %w", syscall.EPERM))
	}
	return p.dev.opError(op, p.refs.whileOpen(p.remote.refuse))
}
