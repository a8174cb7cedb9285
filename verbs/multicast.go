// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// MulticastQPN is the QP number of datagrams to a multicast group.
const MulticastQPN = 0xffffff

// AttachMulticast makes a UD QP receive the datagrams to a multicast group (ibv_attach_mcast(3)).
// gid names the group. On RoCE v2 it is the group's IPv6 or IPv4-mapped address. lid is the group's
// LID on InfiniBand and 0 on Ethernet. The network must bring the packets to the port, which the
// connection manager's JoinMulticast arranges. Close of the QP also detaches it.
func (q *QP) AttachMulticast(gid GID, lid uint16) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.opError("attach multicast group to", q.attachMulticast(group{gid, lid}))
}

// group is a multicast group.
type group struct {
	gid GID
	lid uint16
}

func (q *QP) attachMulticast(g group) error {
	switch {
	case q.closed:
		return net.ErrClosed
	case q.typ != UD:
		return fmt.Errorf("QP type %v: %w", q.typ, syscall.EINVAL)
	case !isMulticast(g.gid):
		return fmt.Errorf("%v is not a multicast GID: %w", g.gid, syscall.EINVAL)
	}
	if err := q.pd.dev.file.AttachMcast(q.p.Handle(), g.gid, g.lid); err != nil {
		return err
	}
	// A second attachment to the same group has no effect.
	if q.groups == nil {
		q.groups = make(map[group]struct{})
	}
	q.groups[g] = struct{}{}
	return nil
}

func isMulticast(g GID) bool { return netip.AddrFrom16(g).Unmap().IsMulticast() }

// DetachMulticast ends AttachMulticast (ibv_detach_mcast(3)). For a group that
// the QP is not attached to, the error wraps EINVAL.
func (q *QP) DetachMulticast(gid GID, lid uint16) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.opError("detach multicast group from", q.detachMulticast(group{gid, lid}))
}

func (q *QP) detachMulticast(g group) error {
	if q.closed {
		return net.ErrClosed
	}
	if _, ok := q.groups[g]; !ok {
		return fmt.Errorf("not attached to %v: %w", g.gid, syscall.EINVAL)
	}
	if err := q.pd.dev.destroyed(q.pd.dev.file.DetachMcast(q.p.Handle(), g.gid, g.lid)); err != nil {
		return err
	}
	delete(q.groups, g)
	return nil
}

// detachAll detaches the QP from its groups, because the kernel does not destroy an attached QP.
func (q *QP) detachAll() error {
	var errs []error
	for g := range q.groups {
		errs = append(errs, q.detachMulticast(g))
	}
	return errors.Join(errs...)
}
