// SPDX-License-Identifier: Apache-2.0

package provider

// Features lists the operations and objects that not every device has. It lists the operations of
// QPs of type RC, the type that every device has. The limits of a device are in verbs.DeviceAttr.
// Faults of drivers do not count here.
type Features struct {
	// UC, UD and XRC are types of QPs. UD includes address handles, and multicast
	// if DeviceAttr.MaxMcastGroups is not 0.
	UC, UD, XRC bool

	// Immediate is immediate data: OpSendImm and OpWriteImm.
	Immediate bool
	// Atomics are OpCompareSwap and OpFetchAdd.
	Atomics bool
	// AtomicWrite is OpAtomicWrite.
	AtomicWrite bool
	// FlushGlobal and FlushPersistent are OpFlush of the types ToGlobal and ToPersistent.
	FlushGlobal, FlushPersistent bool

	// MWType1 and MWType2 are memory windows of these types: AllocMW and OpBindMW.
	MWType1, MWType2 bool
	// LocalInv is OpLocalInv of the key of a bound window of type 2.
	LocalInv bool
	// SendInvMW is set if OpSendInv invalidates the key of a bound window of type 2 of the
	// receiver.
	SendInvMW bool
	// SendInvMR is set if OpSendInv invalidates the key of a memory region of the receiver. Without
	// it the message fails if the key is a region's.
	SendInvMR bool
	// ReportsInv is set if the completion of a receive has WCWithInv and the key that the peer's
	// OpSendInv has invalidated. Without it, agree on the key in the message.
	ReportsInv bool
	// ReadInv is OpReadInv.
	ReadInv bool
	// ReadNeedsRemoteWrite is set if memory that an OpRead fills must have the right RemoteWrite,
	// because the answer names it by its key (iWARP). siw does not check it.
	ReadNeedsRemoteWrite bool
	// LateReads is set if the WC of an OpRead may come after the WCs of later requests of the send
	// queue. siw completes a SEND or WRITE when it has sent it, and an OpRead when the answer has
	// arrived (siw_qp_sq_process of siw_qp_tx.c). So the WC of a later request proves nothing about
	// an earlier OpRead that has a WC of its own. It does prove that an OpRead without a WC has
	// completed.
	LateReads bool
}
