// SPDX-License-Identifier: Apache-2.0

package provider

import "purerdma/abi"

// Access is a set of rights to registered memory, and of the operations that a
// QP lets its peer do: enum ib_uverbs_access_flags of rdma/ib_user_ioctl_verbs.h,
// IBV_ACCESS_... of ibv_reg_mr(3).
type Access uint32

// Rights to memory. The host itself may always read. RemoteWrite and
// RemoteAtomic need LocalWrite.
const (
	LocalWrite   Access = abi.IB_UVERBS_ACCESS_LOCAL_WRITE
	RemoteWrite  Access = abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	RemoteRead   Access = abi.IB_UVERBS_ACCESS_REMOTE_READ
	RemoteAtomic Access = abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	MWBind       Access = abi.IB_UVERBS_ACCESS_MW_BIND
	ZeroBased    Access = abi.IB_UVERBS_ACCESS_ZERO_BASED
	OnDemand     Access = abi.IB_UVERBS_ACCESS_ON_DEMAND
	HugeTLB      Access = abi.IB_UVERBS_ACCESS_HUGETLB

	FlushGlobal     Access = abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL     // peers may flush to where all see it
	FlushPersistent Access = abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT // peers may flush to where it outlives a loss of power

	RelaxedOrdering Access = abi.IB_UVERBS_ACCESS_RELAXED_ORDERING
)

var accessNames = bitNames{
	{uint64(LocalWrite), "LocalWrite"}, {uint64(RemoteWrite), "RemoteWrite"}, {uint64(RemoteRead), "RemoteRead"},
	{uint64(RemoteAtomic), "RemoteAtomic"}, {uint64(MWBind), "MWBind"}, {uint64(ZeroBased), "ZeroBased"},
	{uint64(OnDemand), "OnDemand"}, {uint64(HugeTLB), "HugeTLB"}, {uint64(FlushGlobal), "FlushGlobal"},
	{uint64(FlushPersistent), "FlushPersistent"}, {uint64(RelaxedOrdering), "RelaxedOrdering"},
}

// String lists the rights, as "LocalWrite|RemoteRead".
func (a Access) String() string { return accessNames.format(uint64(a)) }
