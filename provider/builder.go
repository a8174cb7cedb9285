// SPDX-License-Identifier: Apache-2.0

package provider

// BatchBuilder is a QP that builds the most frequent requests of a batch from their parts,
// without a SendWR. Its methods of Builder replace BatchAdd, between BatchBegin and
// BatchPost or BatchDiscard.
type BatchBuilder interface {
	Builder
	// First returns the Builder of the first request of each batch. Its methods call
	// BatchBegin, which saves a call.
	First() Builder
}

// Builder builds requests of a batch. A WRITE of more bytes than its RemoteMemory has fails
// with ErrRemoteLength.
type Builder interface {
	// BatchWrite builds an OpWrite of one element.
	BatchWrite(id uint64, local SGE, remote RemoteMemory, flags SendFlags) error
	// BatchWriteInline builds an OpWrite of inline data.
	BatchWriteInline(id uint64, data []byte, remote RemoteMemory, flags SendFlags) error
	// BatchSend builds an OpSend of one element.
	BatchSend(id uint64, local SGE, flags SendFlags) error
	// BatchSendInline builds an OpSend of inline data.
	BatchSendInline(id uint64, data []byte, flags SendFlags) error
}
