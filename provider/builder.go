// SPDX-License-Identifier: Apache-2.0

package provider

// Builder is a QP that builds the most frequent requests of a batch from their
// parts, without a SendWR. Its methods stand for BatchAdd, between BatchBegin and
// BatchPost or BatchDiscard.
type Builder interface {
	QP
	// BatchWrite builds an OpWrite of one element.
	BatchWrite(id uint64, flags SendFlags, local SGE, remote uint64, rkey uint32) error
	// BatchWriteInline builds an OpWrite of inline data.
	BatchWriteInline(id uint64, flags SendFlags, data []byte, remote uint64, rkey uint32) error
	// BatchSend builds an OpSend of one element.
	BatchSend(id uint64, flags SendFlags, local SGE) error
	// BatchSendInline builds an OpSend of inline data.
	BatchSendInline(id uint64, flags SendFlags, data []byte) error
	// BatchFlag sets flags of the request that was built last, in a batch that has
	// one.
	BatchFlag(flags SendFlags)
}
