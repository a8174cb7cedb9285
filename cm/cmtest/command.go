// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"

	"purerdma/abi"
	"purerdma/ucma"
)

// Write executes a command and returns the result that Linux would return.
func (f *file) Write(b []byte) error {
	code := abi.View[abi.UcmCmdHdr](b).Cmd
	if err := f.k.ask(Command{Device: connectionManager, Name: ucma.CommandName(code)}); err != nil {
		return err
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.isClosed() {
		return net.ErrClosed
	}
	switch code {
	case abi.RDMA_USER_CM_CMD_CREATE_ID:
		c := input[abi.UcmCreateID](b)
		if c.PS != abi.RDMA_PS_TCP && c.PS != abi.RDMA_PS_UDP {
			return syscall.EINVAL
		}
		answer(c.Response, &abi.UcmCreateIDResp{ID: f.k.create(f, c.UID, c.PS).num})
		return nil
	case abi.RDMA_USER_CM_CMD_LEAVE_MCAST:
		return f.k.leave(f, input[abi.UcmDestroyID](b))
	}
	owner := f
	if code == abi.RDMA_USER_CM_CMD_MIGRATE_ID {
		if owner = f.k.files[int(input[abi.UcmMigrateID](b).FD)]; owner == nil {
			return syscall.ENOENT
		}
	}
	num, ok := idOf(code, b)
	id := f.k.ids[num]
	switch {
	case !ok:
		return syscall.ENOSYS
	case id == nil:
		return syscall.ENOENT
	case id.file != owner:
		return syscall.EINVAL
	case code == abi.RDMA_USER_CM_CMD_DESTROY_ID:
		f.k.destroy(id)
		answer(input[abi.UcmDestroyID](b).Response, &abi.UcmDestroyIDResp{EventsReported: id.reported})
		return nil
	case id.state == removed:
		return syscall.ENXIO
	case code == abi.RDMA_USER_CM_CMD_MIGRATE_ID:
		f.k.migrate(id, f)
		answer(input[abi.UcmMigrateID](b).Response, &abi.UcmMigrateResp{EventsReported: id.reported})
		return nil
	}
	return f.k.command(code, id, b)
}

// idOf returns the number of the ID that a command names. It returns false for a command that
// names no ID.
func idOf(code uint32, b []byte) (uint32, bool) {
	switch code {
	case abi.RDMA_USER_CM_CMD_DESTROY_ID:
		return input[abi.UcmDestroyID](b).ID, true
	case abi.RDMA_USER_CM_CMD_MIGRATE_ID:
		return input[abi.UcmMigrateID](b).ID, true
	case abi.RDMA_USER_CM_CMD_QUERY:
		return input[abi.UcmQuery](b).ID, true
	case abi.RDMA_USER_CM_CMD_BIND:
		return input[abi.UcmBind](b).ID, true
	case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		return input[abi.UcmResolveAddr](b).ID, true
	case abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		return input[abi.UcmResolveRoute](b).ID, true
	case abi.RDMA_USER_CM_CMD_SET_OPTION:
		return input[abi.UcmSetOption](b).ID, true
	case abi.RDMA_USER_CM_CMD_LISTEN:
		return input[abi.UcmListen](b).ID, true
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		return input[abi.UcmInitQPAttr](b).ID, true
	case abi.RDMA_USER_CM_CMD_CONNECT:
		return input[abi.UcmConnect](b).ID, true
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		return input[abi.UcmAccept](b).ID, true
	case abi.RDMA_USER_CM_CMD_REJECT:
		return input[abi.UcmReject](b).ID, true
	case abi.RDMA_USER_CM_CMD_DISCONNECT:
		return input[abi.UcmDisconnect](b).ID, true
	case abi.RDMA_USER_CM_CMD_NOTIFY:
		return input[abi.UcmNotify](b).ID, true
	case abi.RDMA_USER_CM_CMD_JOIN_MCAST:
		return input[abi.UcmJoinMcast](b).ID, true
	}
	return 0, false
}

// command executes a command on an ID whose device has not been removed.
func (k *Kernel) command(code uint32, id *id, b []byte) error {
	switch code {
	case abi.RDMA_USER_CM_CMD_BIND:
		return k.bind(id, addrPort(&input[abi.UcmBind](b).Addr))
	case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		return k.resolveAddr(id, input[abi.UcmResolveAddr](b))
	case abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		return k.resolveRoute(id, input[abi.UcmResolveRoute](b).TimeoutMS)
	case abi.RDMA_USER_CM_CMD_SET_OPTION:
		return k.setOption(id, input[abi.UcmSetOption](b))
	case abi.RDMA_USER_CM_CMD_QUERY:
		return k.query(id, input[abi.UcmQuery](b), abi.View[abi.UcmCmdHdr](b).Out)
	case abi.RDMA_USER_CM_CMD_LISTEN:
		return k.listen(id, int32(input[abi.UcmListen](b).Backlog))
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		return k.initQPAttr(id, input[abi.UcmInitQPAttr](b))
	case abi.RDMA_USER_CM_CMD_CONNECT:
		return k.connect(id, input[abi.UcmConnect](b))
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		return k.accept(id, input[abi.UcmAccept](b))
	case abi.RDMA_USER_CM_CMD_REJECT:
		return k.reject(id, input[abi.UcmReject](b))
	case abi.RDMA_USER_CM_CMD_DISCONNECT:
		return k.disconnect(id)
	case abi.RDMA_USER_CM_CMD_NOTIFY:
		return k.notify(id, input[abi.UcmNotify](b).Event)
	case abi.RDMA_USER_CM_CMD_JOIN_MCAST:
		return k.join(id, input[abi.UcmJoinMcast](b))
	}
	return syscall.ENOSYS
}

// addrPort decodes an IP address. For an address of another family it returns the zero
// AddrPort.
func addrPort(sa *abi.SockaddrStorage) netip.AddrPort {
	a, _ := ucma.DecodeSockaddr(sa)
	return a.AddrPort
}

// setOption implements SET_OPTION.
func (k *Kernel) setOption(id *id, c *abi.UcmSetOption) error {
	const (
		tos       = abi.RDMA_OPTION_ID_TOS
		reuseAddr = abi.RDMA_OPTION_ID_REUSEADDR
		afOnly    = abi.RDMA_OPTION_ID_AFONLY
		timeout   = abi.RDMA_OPTION_ID_ACK_TIMEOUT
	)
	if c.Level == abi.RDMA_OPTION_IB && c.OptName == abi.RDMA_OPTION_IB_PATH {
		if id.state != addrResolved || c.OptLen == 0 || c.OptLen%uint32(abi.Size[abi.IBPathRecData]()) != 0 {
			return syscall.EINVAL
		}
		k.to(id, routeResolved)
		k.tell(id, abi.RDMA_CM_EVENT_ROUTE_RESOLVED, 0)
		return nil
	}
	lengths := map[uint32]uint32{tos: 1, reuseAddr: 4, afOnly: 4, timeout: 1}
	want, ok := lengths[c.OptName]
	switch {
	case c.Level != abi.RDMA_OPTION_ID || !ok:
		return syscall.ENOSYS
	case c.OptLen != want, c.OptName == timeout && id.datagram():
		return syscall.EINVAL
	case c.OptName == afOnly && !id.in(idle, bound):
		return syscall.EINVAL
	case c.OptName == reuseAddr:
		on := binary.NativeEndian.Uint32(c.OptVal.Slice(4)) != 0
		if on && id.state == listening || !on && id.state != idle {
			return syscall.EINVAL
		}
		id.reuseAddr = on
	}
	return nil
}

// notify implements NOTIFY.
func (k *Kernel) notify(id *id, event uint32) error {
	const commEst, pathMig = 4, 7 // enum ib_event_type
	switch {
	case id.dev == nil || event != commEst && event != pathMig:
		return syscall.EINVAL
	case event == pathMig && id.state == established:
		return nil
	case event == commEst && id.state == repSent:
		k.to(id, established)
		k.tell(id, abi.RDMA_CM_EVENT_ESTABLISHED, 0)
		return nil
	case event == commEst && id.state == established:
		return syscall.EISCONN
	}
	return syscall.EINVAL
}
