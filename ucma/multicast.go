// SPDX-License-Identifier: Apache-2.0

package ucma

import "purerdma/abi"

// JoinMcast joins a multicast group (RDMA_USER_CM_CMD_JOIN_MCAST). joinFlags is
// RDMA_MC_JOIN_FLAG_FULLMEMBER or RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER. The outcome is a
// MULTICAST_JOIN or MULTICAST_ERROR event with uid and the number of the membership. That number is
// not an ID. It is the argument of LeaveMcast.
func (f *File) JoinMcast(id uint32, uid uint64, group Addr, joinFlags uint16) (membership uint32, err error) {
	const code = abi.RDMA_USER_CM_CMD_JOIN_MCAST
	sa, size, err := EncodeSockaddr(group)
	if err != nil {
		return 0, &OpError{Op: CommandName(code), ID: id, Err: err}
	}
	resp := new(abi.UcmCreateIDResp)
	err = runCommandResp(f, code, id, abi.UcmJoinMcast{
		Response:  abi.NewPointer(resp),
		UID:       uid,
		ID:        id,
		AddrSize:  size,
		JoinFlags: joinFlags,
		Addr:      sa,
	}, resp)
	return resp.ID, err
}

// LeaveMcast ends a membership (RDMA_USER_CM_CMD_LEAVE_MCAST). It returns the number of its events
// that have been fetched.
func (f *File) LeaveMcast(membership uint32) (eventsReported uint32, err error) {
	resp := new(abi.UcmDestroyIDResp)
	err = runCommandResp(f, abi.RDMA_USER_CM_CMD_LEAVE_MCAST, membership, abi.UcmDestroyID{
		Response: abi.NewPointer(resp),
		ID:       membership,
	}, resp)
	return resp.EventsReported, err
}
